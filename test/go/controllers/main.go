// The controllers of three tutorials of the kubebuilder book, as the benchmark compares them with ours: one runs per process.
package main

import (
	"flag"
	"fmt"
	"os"

	"k8s.io/apimachinery/pkg/runtime"
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/healthz"
	"sigs.k8s.io/controller-runtime/pkg/log/zap"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"

	batchv1 "gatehouse.dev/test/go/controllers/api/batch/v1"
	cachev1 "gatehouse.dev/test/go/controllers/api/cache/v1"
	storagev1 "gatehouse.dev/test/go/controllers/api/storage/v1"
	"gatehouse.dev/test/go/controllers/internal"
)

func main() {
	var which, metricsAddr, service string
	var concurrency int
	flag.StringVar(&which, "controller", "", "memcacheds, buckets or cronjobs.")
	flag.StringVar(&metricsAddr, "metrics-bind-address", "0", "The address the metrics endpoint binds to.")
	flag.StringVar(&service, "service", os.Getenv("BUCKETS_URL"), "The URL of the service with the buckets.")
	flag.IntVar(&concurrency, "concurrency", 1, "How many objects are reconciled at the same time.")
	opts := zap.Options{}
	opts.BindFlags(flag.CommandLine)
	flag.Parse()
	ctrl.SetLogger(zap.New(zap.UseFlagOptions(&opts)))
	if err := run(which, metricsAddr, service, controller.Options{MaxConcurrentReconciles: concurrency}); err != nil {
		ctrl.Log.Error(err, "the manager ended")
		os.Exit(1)
	}
}

func run(which, metricsAddr, service string, options controller.Options) error {
	scheme := runtime.NewScheme()
	utilruntime.Must(clientgoscheme.AddToScheme(scheme))
	utilruntime.Must(cachev1.AddToScheme(scheme))
	utilruntime.Must(storagev1.AddToScheme(scheme))
	utilruntime.Must(batchv1.AddToScheme(scheme))
	mgr, err := ctrl.NewManager(ctrl.GetConfigOrDie(), ctrl.Options{
		Scheme:                        scheme,
		Metrics:                       metricsserver.Options{BindAddress: metricsAddr},
		LeaderElection:                true,
		LeaderElectionID:              "tutorials.gatehouse.dev",
		LeaderElectionNamespace:       "default",
		LeaderElectionReleaseOnCancel: true,
	})
	if err != nil {
		return err
	}
	if err := setup(mgr, which, service, options); err != nil {
		return err
	}
	if err := mgr.AddHealthzCheck("healthz", healthz.Ping); err != nil {
		return err
	}
	return mgr.Start(ctrl.SetupSignalHandler())
}

func setup(mgr ctrl.Manager, which, service string, options controller.Options) error {
	switch which {
	case "memcacheds":
		return (&internal.MemcachedReconciler{Client: mgr.GetClient(), Scheme: mgr.GetScheme()}).SetupWithManager(mgr, options)
	case "buckets":
		return (&internal.BucketReconciler{Client: mgr.GetClient(), Service: service}).SetupWithManager(mgr, options)
	case "cronjobs":
		return (&internal.CronJobReconciler{Client: mgr.GetClient(), Scheme: mgr.GetScheme()}).SetupWithManager(mgr, options)
	}
	return fmt.Errorf("-controller is %q: give memcacheds, buckets or cronjobs", which)
}
