package cluster

import (
	"context"
	"path"
	"slices"
	"strings"

	core "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/errors"

	"dcm/cmd/dcm-kubernetes/internal/sequence"
)

// Operand is the label of a DaemonSet's pods that serve GPUs.
const Operand = "deviceconfig.org/operand"

// Images of operands that cannot be recognised by their mounts.
const (
	plugin   = "k8s-device-plugin"
	exporter = "device-metrics-exporter"
	dra      = "k8s-gpu-dra-driver"
	rival    = "device-config-manager"
)

// Self is the agent's own pod, which is never evicted.
type Self struct{ Namespace, Name string }

// ViewPods classifies the pods of a node.
func (c *Client) ViewPods(ctx context.Context, pods []core.Pod, self Self) (*sequence.Pods, error) {
	out := &sequence.Pods{}
	claims := make(map[claim]bool) // whether a claim has a GPU; several pods may share it
	for _, pod := range pods {
		if pod.Status.Phase == core.PodSucceeded || pod.Status.Phase == core.PodFailed || (Self{pod.Namespace, pod.Name} == self) {
			continue
		}
		if why := rivals(pod); why != "" {
			out.Rival = why
		}
		daemon := owner(pod, "DaemonSet") != ""
		uses, err := c.uses(ctx, pod, daemon, claims)
		switch {
		case err != nil:
			return nil, err
		case daemon && (uses || pod.Labels[Operand] == "true" || runs(pod, plugin, exporter, dra)):
			out.Operands = append(out.Operands, viewPod(pod))
			out.Plugin = out.Plugin || counts(pod)
			out.Driver = out.Driver || runs(pod, dra)
		case !daemon && uses:
			out.Work = append(out.Work, viewPod(pod))
		}
	}
	return out, nil
}

func viewPod(pod core.Pod) sequence.Pod {
	_, mirror := pod.Annotations[core.MirrorPodAnnotationKey]
	return sequence.Pod{
		Namespace: pod.Namespace, Name: pod.Name, UID: string(pod.UID),
		Owner:   owner(pod, ""),
		Mirror:  mirror,
		Leaving: pod.DeletionTimestamp != nil,
		Stays:   slices.ContainsFunc(pod.Spec.Tolerations, func(t core.Toleration) bool { return tolerates(t) }),
		Ready: slices.ContainsFunc(pod.Status.Conditions, func(c core.PodCondition) bool {
			return c.Type == core.PodReady && c.Status == core.ConditionTrue
		}),
	}
}

func tolerates(t core.Toleration) bool {
	return (t.Key == taint.Key || t.Key == "" && t.Operator == core.TolerationOpExists) &&
		(t.Operator == core.TolerationOpExists || t.Value == taint.Value) &&
		(t.Effect == "" || t.Effect == taint.Effect)
}

// owner returns namespace, kind and name of the object that recreates the pod.
func owner(pod core.Pod, kind string) string {
	for _, o := range pod.OwnerReferences {
		if o.Controller != nil && *o.Controller && (kind == "" || o.Kind == kind) {
			return pod.Namespace + "/" + o.Name
		}
	}
	return ""
}

// uses reports whether a pod has GPUs: as a resource, by a claim or by their device nodes. A
// mount of all of /dev does not count, since DaemonSets for disks have it.
func (c *Client) uses(ctx context.Context, pod core.Pod, daemon bool, known map[claim]bool) (bool, error) {
	for _, list := range [][]core.Container{pod.Spec.InitContainers, pod.Spec.Containers} {
		for _, container := range list {
			for name := range container.Resources.Limits {
				if gpus(name) {
					return true, nil
				}
			}
		}
	}
	for _, v := range pod.Spec.Volumes {
		if v.HostPath == nil {
			continue
		}
		at := path.Clean(v.HostPath.Path)
		if at == "/dev" && !daemon || at == "/dev/kfd" || at == "/dev/dri" || strings.HasPrefix(at, "/dev/dri/") {
			return true, nil
		}
	}
	for _, name := range claimsOf(pod) {
		at := claim{pod.Namespace, name}
		ours, ok := known[at]
		if !ok {
			var err error
			if ours, err = c.claims(ctx, at.namespace, at.name); err != nil && !errors.IsNotFound(err) {
				return false, err
			}
			known[at] = ours
		}
		if ours {
			return true, nil
		}
	}
	return false, nil
}

// claim is the name of a ResourceClaim.
type claim struct{ namespace, name string }

// claimsOf returns the names of a pod's claims. Claims that it names are in its spec. Claims
// that are created for it, from a template or for extended resources, are in its status.
func claimsOf(pod core.Pod) []string {
	var names []string
	for _, c := range pod.Spec.ResourceClaims {
		if c.ResourceClaimName != nil {
			names = append(names, *c.ResourceClaimName)
			continue
		}
		for _, s := range pod.Status.ResourceClaimStatuses {
			if s.Name == c.Name && s.ResourceClaimName != nil {
				names = append(names, *s.ResourceClaimName)
			}
		}
	}
	if s := pod.Status.ExtendedResourceClaimStatus; s != nil {
		names = append(names, s.ResourceClaimName)
	}
	return names
}

// gpus reports whether a resource name means AMD GPUs, such as amd.com/gpu or amd.com/cpx_nps4.
// Network cards have other names of amd.com.
func gpus(name core.ResourceName) bool {
	kind, ok := strings.CutPrefix(string(name), "amd.com/")
	return ok && !strings.Contains(kind, "nic")
}

// counts reports whether a pod is the device plugin, which counts the partitions when it starts.
// The labeller has the same image and does not register with the kubelet.
func counts(pod core.Pod) bool {
	return runs(pod, plugin) && slices.ContainsFunc(pod.Spec.Volumes, func(v core.Volume) bool {
		return v.HostPath != nil && path.Clean(v.HostPath.Path) == "/var/lib/kubelet/device-plugins"
	})
}

// runs reports whether a container of the pod has one of the images, with any registry and
// tag. NVIDIA's device plugin has the same image name in another repository.
func runs(pod core.Pod, images ...string) bool {
	return slices.ContainsFunc(pod.Spec.Containers, func(c core.Container) bool {
		return slices.Contains(images, image(c.Image)) && !strings.Contains(path.Dir(c.Image), "nvidia")
	})
}

// image returns the last element of an image's repository.
func image(reference string) string {
	name, _, _ := strings.Cut(path.Base(reference), "@")
	name, _, _ = strings.Cut(name, ":")
	return name
}

// rivals names other software that partitions GPUs on this node.
func rivals(pod core.Pod) string {
	if runs(pod, rival) {
		return "AMD's own Device Config Manager runs on this node, as " + pod.Namespace + "/" + pod.Name +
			", and two must not divide the same GPUs: set spec.configManager.enable of the DeviceConfig to false"
	}
	if !runs(pod, dra) {
		return ""
	}
	for _, c := range pod.Spec.Containers {
		words := slices.Concat(c.Command, c.Args)
		for _, e := range c.Env {
			words = append(words, e.Value)
		}
		if slices.ContainsFunc(words, func(w string) bool { return strings.Contains(w, "AutoPartition=true") }) {
			return "the DRA driver " + pod.Namespace + "/" + pod.Name +
				" divides GPUs as claims want them, and two must not divide the same ones: take AutoPartition from its feature gates"
		}
	}
	return ""
}
