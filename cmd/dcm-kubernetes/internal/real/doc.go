// Package real has no code but a test, of the agent with real parts: kube-apiserver and
// kube-controller-manager, made from their modules into a cache, with etcd. Kubelets and
// the scheduler are played, as are the hosts' GPUs. It is run by make test-kubernetes.
package real
