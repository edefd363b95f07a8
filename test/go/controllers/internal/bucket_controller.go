package internal

import (
	"context"
	"fmt"
	"net/http"
	"strings"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"

	storagev1 "gatehouse.dev/test/go/controllers/api/storage/v1"
)

const bucketFinalizer = "storage.example.com/finalizer"

// BucketReconciler follows "Using Finalizers" of the kubebuilder book; the external resource is a path of an HTTP service.
type BucketReconciler struct {
	client.Client
	Service string
}

func (r *BucketReconciler) Reconcile(ctx context.Context, req ctrl.Request) (ctrl.Result, error) {
	bucket := &storagev1.Bucket{}
	if err := r.Get(ctx, req.NamespacedName, bucket); err != nil {
		return ctrl.Result{}, client.IgnoreNotFound(err)
	}

	if !bucket.DeletionTimestamp.IsZero() {
		if controllerutil.ContainsFinalizer(bucket, bucketFinalizer) {
			if err := r.call(ctx, http.MethodDelete, bucket); err != nil {
				return ctrl.Result{}, err
			}
			controllerutil.RemoveFinalizer(bucket, bucketFinalizer)
			if err := r.Update(ctx, bucket); err != nil {
				return ctrl.Result{}, err
			}
		}
		return ctrl.Result{}, nil
	}
	if controllerutil.AddFinalizer(bucket, bucketFinalizer) {
		if err := r.Update(ctx, bucket); err != nil {
			return ctrl.Result{}, err
		}
	}

	if err := r.call(ctx, http.MethodPut, bucket); err != nil {
		return ctrl.Result{}, err
	}
	url := r.url(bucket)
	changed := meta.SetStatusCondition(&bucket.Status.Conditions, metav1.Condition{
		Type: "Ready", Status: metav1.ConditionTrue, Reason: "Created", Message: "The bucket exists", ObservedGeneration: bucket.Generation,
	})
	if changed || bucket.Status.URL != url {
		bucket.Status.URL = url
		return ctrl.Result{}, r.Status().Update(ctx, bucket)
	}
	return ctrl.Result{}, nil
}

func (r *BucketReconciler) url(bucket *storagev1.Bucket) string {
	return fmt.Sprintf("%s/buckets/%s", r.Service, bucket.UID)
}

func (r *BucketReconciler) call(ctx context.Context, method string, bucket *storagev1.Bucket) error {
	request, err := http.NewRequestWithContext(ctx, method, r.url(bucket), strings.NewReader(bucket.Spec.Region))
	if err != nil {
		return err
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return err
	}
	defer response.Body.Close()
	if response.StatusCode >= 300 && response.StatusCode != http.StatusNotFound {
		return fmt.Errorf("%s %s: %s", method, request.URL, response.Status)
	}
	return nil
}

func (r *BucketReconciler) SetupWithManager(mgr ctrl.Manager, options controller.Options) error {
	return ctrl.NewControllerManagedBy(mgr).For(&storagev1.Bucket{}).WithOptions(options).Named("bucket").Complete(r)
}
