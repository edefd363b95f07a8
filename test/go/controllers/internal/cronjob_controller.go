package internal

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/robfig/cron"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	ref "k8s.io/client-go/tools/reference"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	logf "sigs.k8s.io/controller-runtime/pkg/log"

	batchtutorialv1 "gatehouse.dev/test/go/controllers/api/batch/v1"
)

const (
	jobOwnerKey             = ".metadata.controller"
	scheduledTimeAnnotation = "batch.tutorial.kubebuilder.io/scheduled-at"
)

// CronJobReconciler is the one of the CronJob tutorial of the kubebuilder book.
type CronJobReconciler struct {
	client.Client
	Scheme *runtime.Scheme
}

func (r *CronJobReconciler) Reconcile(ctx context.Context, req ctrl.Request) (ctrl.Result, error) {
	log := logf.FromContext(ctx)

	var cronJob batchtutorialv1.CronJob
	if err := r.Get(ctx, req.NamespacedName, &cronJob); err != nil {
		return ctrl.Result{}, client.IgnoreNotFound(err)
	}
	var childJobs batchv1.JobList
	if err := r.List(ctx, &childJobs, client.InNamespace(req.Namespace), client.MatchingFields{jobOwnerKey: req.Name}); err != nil {
		return ctrl.Result{}, err
	}

	var activeJobs, successfulJobs, failedJobs []*batchv1.Job
	var mostRecentTime *time.Time
	for i := range childJobs.Items {
		job := &childJobs.Items[i]
		switch finishedAs(job) {
		case "":
			activeJobs = append(activeJobs, job)
		case batchv1.JobFailed:
			failedJobs = append(failedJobs, job)
		case batchv1.JobComplete:
			successfulJobs = append(successfulJobs, job)
		}
		if scheduled, err := scheduledTimeOf(job); err != nil {
			log.Error(err, "unable to parse schedule time for child job", "job", job.Name)
		} else if scheduled != nil && (mostRecentTime == nil || mostRecentTime.Before(*scheduled)) {
			mostRecentTime = scheduled
		}
	}

	before := cronJob.Status.DeepCopy()
	cronJob.Status.LastScheduleTime = nil
	if mostRecentTime != nil {
		cronJob.Status.LastScheduleTime = &metav1.Time{Time: *mostRecentTime}
	}
	cronJob.Status.Active = nil
	for _, job := range activeJobs {
		jobRef, err := ref.GetReference(r.Scheme, job)
		if err != nil {
			log.Error(err, "unable to make reference to active job", "job", job.Name)
			continue
		}
		cronJob.Status.Active = append(cronJob.Status.Active, corev1.ObjectReference{
			APIVersion: jobRef.APIVersion, Kind: jobRef.Kind, Name: jobRef.Name, Namespace: jobRef.Namespace, UID: jobRef.UID,
		})
	}
	// The book updates in each pass, which stores nothing if nothing differs. A comparison spares the request.
	if !equalStatus(before, &cronJob.Status) {
		if err := r.Status().Update(ctx, &cronJob); err != nil {
			return ctrl.Result{}, err
		}
	}

	r.deleteOldest(ctx, failedJobs, cronJob.Spec.FailedJobsHistoryLimit)
	r.deleteOldest(ctx, successfulJobs, cronJob.Spec.SuccessfulJobsHistoryLimit)
	if cronJob.Spec.Suspend != nil && *cronJob.Spec.Suspend {
		return ctrl.Result{}, nil
	}

	now := time.Now()
	missedRun, nextRun, err := nextSchedule(&cronJob, now)
	if err != nil {
		log.Error(err, "unable to figure out CronJob schedule")
		return ctrl.Result{}, nil // no retry before the schedule changes
	}
	result := ctrl.Result{RequeueAfter: time.Until(nextRun)}
	if missedRun.IsZero() {
		return result, nil
	}
	if deadline := cronJob.Spec.StartingDeadlineSeconds; deadline != nil && missedRun.Add(time.Duration(*deadline)*time.Second).Before(now) {
		return result, nil
	}
	if cronJob.Spec.ConcurrencyPolicy == batchtutorialv1.ForbidConcurrent && len(activeJobs) > 0 {
		return result, nil
	}
	if cronJob.Spec.ConcurrencyPolicy == batchtutorialv1.ReplaceConcurrent {
		for _, activeJob := range activeJobs {
			if err := r.Delete(ctx, activeJob, client.PropagationPolicy(metav1.DeletePropagationBackground)); client.IgnoreNotFound(err) != nil {
				return ctrl.Result{}, err
			}
		}
	}
	job, err := r.jobFor(&cronJob, missedRun)
	if err != nil {
		return result, nil
	}
	return result, r.Create(ctx, job)
}

func finishedAs(job *batchv1.Job) batchv1.JobConditionType {
	for _, c := range job.Status.Conditions {
		if (c.Type == batchv1.JobComplete || c.Type == batchv1.JobFailed) && c.Status == corev1.ConditionTrue {
			return c.Type
		}
	}
	return ""
}

func scheduledTimeOf(job *batchv1.Job) (*time.Time, error) {
	raw := job.Annotations[scheduledTimeAnnotation]
	if raw == "" {
		return nil, nil
	}
	parsed, err := time.Parse(time.RFC3339, raw)
	return &parsed, err
}

func equalStatus(a, b *batchtutorialv1.CronJobStatus) bool {
	return a.LastScheduleTime.Equal(b.LastScheduleTime) && slices.Equal(a.Active, b.Active)
}

func (r *CronJobReconciler) deleteOldest(ctx context.Context, jobs []*batchv1.Job, limit *int32) {
	if limit == nil {
		return
	}
	slices.SortFunc(jobs, func(a, b *batchv1.Job) int {
		if a.Status.StartTime == nil || b.Status.StartTime == nil {
			return cmp.Compare(a.Name, b.Name)
		}
		return a.Status.StartTime.Compare(b.Status.StartTime.Time)
	})
	for _, job := range jobs[:max(0, len(jobs)-int(*limit))] {
		if err := r.Delete(ctx, job, client.PropagationPolicy(metav1.DeletePropagationBackground)); client.IgnoreNotFound(err) != nil {
			logf.FromContext(ctx).Error(err, "unable to delete old job", "job", job.Name)
		}
	}
}

func nextSchedule(cronJob *batchtutorialv1.CronJob, now time.Time) (lastMissed, next time.Time, err error) {
	sched, err := cron.ParseStandard(cronJob.Spec.Schedule)
	if err != nil {
		return time.Time{}, time.Time{}, fmt.Errorf("unparsable schedule %q: %w", cronJob.Spec.Schedule, err)
	}
	earliest := cronJob.CreationTimestamp.Time
	if cronJob.Status.LastScheduleTime != nil {
		earliest = cronJob.Status.LastScheduleTime.Time
	}
	if deadline := cronJob.Spec.StartingDeadlineSeconds; deadline != nil {
		if from := now.Add(-time.Second * time.Duration(*deadline)); from.After(earliest) {
			earliest = from
		}
	}
	if earliest.After(now) {
		return time.Time{}, sched.Next(now), nil
	}
	starts := 0
	for t := sched.Next(earliest); !t.After(now); t = sched.Next(t) {
		lastMissed = t
		if starts++; starts > 100 {
			return time.Time{}, time.Time{}, fmt.Errorf("too many missed start times (> 100): set or decrease startingDeadlineSeconds, or check the clock")
		}
	}
	return lastMissed, sched.Next(now), nil
}

func (r *CronJobReconciler) jobFor(cronJob *batchtutorialv1.CronJob, scheduled time.Time) (*batchv1.Job, error) {
	job := &batchv1.Job{
		ObjectMeta: metav1.ObjectMeta{
			Name:        fmt.Sprintf("%s-%d", cronJob.Name, scheduled.Unix()),
			Namespace:   cronJob.Namespace,
			Labels:      maps.Clone(cronJob.Spec.JobTemplate.Labels),
			Annotations: map[string]string{},
		},
		Spec: *cronJob.Spec.JobTemplate.Spec.DeepCopy(),
	}
	maps.Copy(job.Annotations, cronJob.Spec.JobTemplate.Annotations)
	job.Annotations[scheduledTimeAnnotation] = scheduled.Format(time.RFC3339)
	return job, ctrl.SetControllerReference(cronJob, job, r.Scheme)
}

func (r *CronJobReconciler) SetupWithManager(mgr ctrl.Manager, options controller.Options) error {
	index := func(rawObj client.Object) []string {
		owner := metav1.GetControllerOf(rawObj)
		if owner == nil || owner.APIVersion != batchtutorialv1.GroupVersion.String() || owner.Kind != "CronJob" {
			return nil
		}
		return []string{owner.Name}
	}
	if err := mgr.GetFieldIndexer().IndexField(context.Background(), &batchv1.Job{}, jobOwnerKey, index); err != nil {
		return err
	}
	return ctrl.NewControllerManagedBy(mgr).
		For(&batchtutorialv1.CronJob{}).
		Owns(&batchv1.Job{}).
		WithOptions(options).
		Named("cronjob").
		Complete(r)
}
