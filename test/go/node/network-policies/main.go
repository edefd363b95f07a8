// Enforces NetworkPolicies on a node: the controller of kube-router, without its routing, proxy and clouds, which take minutes to compile.
//
//	network-policies KUBECONFIG NODE SERVICES
package main

import (
	"log"
	"os"
	"sync"
	"time"

	"github.com/cloudnativelabs/kube-router/v2/pkg/controllers/netpol"
	"github.com/cloudnativelabs/kube-router/v2/pkg/healthcheck"
	"github.com/cloudnativelabs/kube-router/v2/pkg/options"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/tools/clientcmd"
)

func must[T any](value T, err error) T {
	if err != nil {
		log.Fatal(err)
	}
	return value
}

func main() {
	config := options.NewKubeRouterConfig()
	config.EnableIPv4 = true
	config.HostnameOverride = os.Args[2]
	config.ClusterIPCIDRs = []string{os.Args[3]}

	client := kubernetes.NewForConfigOrDie(must(clientcmd.BuildConfigFromFlags("", os.Args[1])))
	factory := informers.NewSharedInformerFactory(client, 0)
	pods := factory.Core().V1().Pods().Informer()
	namespaces := factory.Core().V1().Namespaces().Informer()
	policies := factory.Networking().V1().NetworkPolicies().Informer()
	forever := make(chan struct{})
	factory.Start(forever)
	factory.WaitForCacheSync(forever)

	tables, sets, err := netpol.NewIPTablesHandlers(config)
	if err != nil {
		log.Fatal(err)
	}
	controller := must(netpol.NewNetworkPolicyController(client, config, pods, policies, namespaces, &sync.Mutex{}, tables, sets))
	for informer, handler := range map[cache.SharedIndexInformer]cache.ResourceEventHandler{
		pods:       controller.PodEventHandler,
		namespaces: controller.NamespaceEventHandler,
		policies:   controller.NetworkPolicyEventHandler,
	} {
		must(informer.AddEventHandler(handler))
	}
	heartbeats := make(chan *healthcheck.ControllerHeartbeat)
	go func() {
		for range heartbeats { // the controller waits until each is read
		}
	}()
	running := &sync.WaitGroup{}
	running.Add(1)
	log.Printf("enforcing NetworkPolicies since %s", time.Now().Format(time.RFC3339))
	controller.Run(heartbeats, forever, running)
}
