package cluster

import (
	"slices"
	"strconv"
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
	case hidden(pod):
		return "the DRA driver " + name + " may partition GPUs for claims: its " + gatesVariable +
			" are in another object. hint: set the value in the pod"
	case gate(pod, v.Gate):
		return "the DRA driver " + name + " partitions GPUs for claims. hint: remove " + v.Gate + " from its feature gates"
	}
	return ""
}

// gatesVariable is the environment variable with the feature gates of a DRA driver.
const gatesVariable = "FEATURE_GATES"

// hidden reports whether the feature gates of a pod come from another object.
func hidden(pod core.Pod) bool {
	return slices.ContainsFunc(pod.Spec.Containers, func(c core.Container) bool {
		return slices.ContainsFunc(c.Env, func(e core.EnvVar) bool { return e.Name == gatesVariable && e.ValueFrom != nil })
	})
}

// gate reports whether a feature gate of a pod is on. Kubernetes parses its value with [strconv.ParseBool], and
// AllAlpha sets the alpha features that are not named.
func gate(pod core.Pod, name string) bool {
	for _, c := range pod.Spec.Containers {
		words := slices.Concat(c.Command, c.Args)
		for _, e := range c.Env {
			words = append(words, e.Value)
		}
		gates := gatesOf(words)
		if on, named := gates[name]; on || !named && gates["AllAlpha"] {
			return true
		}
	}
	return false
}

// gatesOf returns the pairs NAME=BOOL in comma-separated words. An option may precede the first pair, as in
// --feature-gates=A=true.
func gatesOf(words []string) map[string]bool {
	out := make(map[string]bool)
	for _, word := range words {
		for pair := range strings.SplitSeq(word, ",") {
			parts := strings.Split(pair, "=")
			if len(parts) < 2 {
				continue
			}
			if on, err := strconv.ParseBool(strings.TrimSpace(parts[len(parts)-1])); err == nil {
				out[strings.TrimSpace(parts[len(parts)-2])] = on
			}
		}
	}
	return out
}
