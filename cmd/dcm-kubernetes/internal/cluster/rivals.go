package cluster

import (
	"slices"
	"strings"

	core "k8s.io/api/core/v1"

	"dcm/cmd/dcm-kubernetes/internal/vendor"
)

// rivals names other software that partitions GPUs on this node.
func rivals(v *vendor.Vendor, pod core.Pod) string {
	name := pod.Namespace + "/" + pod.Name
	switch {
	case runs(v, pod, v.Manager...) && v == vendor.AMD:
		return "AMD's Device Config Manager also partitions the GPUs of this node, as " + name +
			". hint: set spec.configManager.enable=false in the DeviceConfig"
	case runs(v, pod, v.Manager...):
		return "NVIDIA's MIG manager also partitions the GPUs of this node, as " + name +
			". hint: set migManager.enabled=false in the GPU operator, or label the node nvidia.com/gpu.deploy.mig-manager=false"
	case !runs(v, pod, v.DRA...):
	case v == vendor.AMD && gate(pod, "AutoPartition"):
		return "the DRA driver " + name + " partitions GPUs for claims. hint: remove AutoPartition from its feature gates"
	case v == vendor.NVIDIA && gate(pod, "DynamicMIG"):
		return "the DRA driver " + name + " creates MIG instances for claims. hint: remove DynamicMIG from its feature gates"
	}
	return ""
}

// gate reports whether a feature gate of a pod is on.
func gate(pod core.Pod, name string) bool {
	for _, c := range pod.Spec.Containers {
		words := slices.Concat(c.Command, c.Args)
		for _, e := range c.Env {
			words = append(words, e.Value)
		}
		if slices.ContainsFunc(words, func(w string) bool { return strings.Contains(w, name+"=true") }) {
			return true
		}
	}
	return false
}
