// Package real contains only tests. They run the agent with a real kube-apiserver,
// kube-controller-manager and etcd, which are built from their Go modules into a cache. The
// kubelets, the scheduler and the GPUs are simulated. make test-kubernetes runs the tests.
package real
