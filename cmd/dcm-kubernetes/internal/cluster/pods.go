package cluster

import (
	"context"
	"path"
	"slices"
	"strings"

	core "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/errors"

	"dcm/cmd/dcm-kubernetes/internal/sequence"
	"dcm/cmd/dcm-kubernetes/internal/vendor"
)

// Operand is the label of a DaemonSet's pods that serve GPUs.
const Operand = "deviceconfig.org/operand"

// Self is the agent's own pod, which is never evicted.
type Self struct{ Namespace, Name string }

// ViewPods classifies the pods of a node with GPUs of a vendor. It reads their claims from the API server.
func ViewPods(ctx context.Context, c *Client, v *vendor.Vendor, pods []core.Pod, self Self) (*sequence.Pods, error) {
	out := &sequence.Pods{}
	claims := claims{c, v, make(map[claim][]string)}
	for _, pod := range pods {
		if slices.Contains(v.Validators, pod.Labels["app"]) {
			// The operator creates this pod again after its deletion. Its state is from before the
			// change, so it is always deleted and never waited for.
			p := viewPod(v, pod)
			p.Owner, p.Stays = "", false
			out.Operands = append(out.Operands, p)
			continue
		}
		if pod.Status.Phase == core.PodSucceeded || pod.Status.Phase == core.PodFailed || (Self{pod.Namespace, pod.Name} == self) {
			continue
		}
		if why := rivals(v, pod); why != "" {
			out.Rival = why
		}
		daemon := owner(pod, "DaemonSet") != ""
		uses, err := usesOf(ctx, v, pod, daemon, claims)
		switch {
		case err != nil:
			return nil, err
		case daemon && (uses.gpus() || operand(v, pod)):
			p := viewPod(v, pod)
			p.Driver, p.Claims = runs(v, pod, v.DRA...), len(uses.devices) > 0
			out.Operands = append(out.Operands, p)
			out.Driver = out.Driver || p.Driver
			if counts(v, pod) {
				out.Plugin, out.Strategy = true, setting(pod, "MIG_STRATEGY", "--mig-strategy")
			}
		case !daemon && uses.gpus():
			p := viewPod(v, pod)
			p.Claims = len(uses.devices) > 0
			if !uses.any {
				p.Devices = uses.devices
			}
			out.Work = append(out.Work, p)
		}
	}
	return out, nil
}

// operand reports whether a DaemonSet's pod serves GPUs: by its label, its image, or a label of the
// node that selects its node and that a change pauses.
func operand(v *vendor.Vendor, pod core.Pod) bool {
	return pod.Labels[Operand] == "true" || runs(v, pod, append(slices.Concat(v.Operands, v.DRA), v.Plugin)...) ||
		slices.Contains(v.Revalidate, pod.Labels["app"]) ||
		slices.ContainsFunc(v.Labels(), func(label string) bool { return pod.Spec.NodeSelector[label] != "" })
}

// setting returns the value of an environment variable or of an option of a pod's containers.
func setting(pod core.Pod, variable, option string) string {
	for _, c := range pod.Spec.Containers {
		words := slices.Concat(c.Command, c.Args)
		for i, w := range words {
			if value, ok := strings.CutPrefix(w, option+"="); ok {
				return value
			}
			if w == option && i+1 < len(words) {
				return words[i+1]
			}
		}
		for _, e := range c.Env {
			if e.Name == variable && e.Value != "" {
				return e.Value
			}
		}
	}
	return ""
}

func viewPod(v *vendor.Vendor, pod core.Pod) sequence.Pod {
	_, mirror := pod.Annotations[core.MirrorPodAnnotationKey]
	return sequence.Pod{
		Namespace: pod.Namespace, Name: pod.Name, UID: string(pod.UID),
		Owner:   owner(pod, ""),
		Mirror:  mirror,
		Leaving: pod.DeletionTimestamp != nil,
		Stays:   slices.ContainsFunc(pod.Spec.Tolerations, func(t core.Toleration) bool { return tolerates(v, t) }) && !paused(v, pod),
		Ready: slices.ContainsFunc(pod.Status.Conditions, func(c core.PodCondition) bool {
			return c.Type == core.PodReady && c.Status == core.ConditionTrue
		}),
	}
}

func tolerates(v *vendor.Vendor, t core.Toleration) bool {
	return (t.Key == v.Taint.Key || t.Key == "" && t.Operator == core.TolerationOpExists) &&
		(t.Operator == core.TolerationOpExists || t.Value == v.Taint.Value) &&
		(t.Effect == "" || t.Effect == core.TaintEffectNoSchedule)
}

// paused reports whether a paused label of the node keeps the pod away.
func paused(v *vendor.Vendor, pod core.Pod) bool {
	return slices.ContainsFunc(v.Labels(), func(label string) bool {
		value := pod.Spec.NodeSelector[label]
		return value != "" && value != vendor.Paused
	})
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

// use is how a pod uses GPUs.
type use struct {
	any     bool     // it may use any GPU of the node: the API does not say which
	devices []string // the devices of its claims
}

func (u use) gpus() bool { return u.any || len(u.devices) > 0 }

// usesOf returns how a pod uses GPUs: as a resource, by a claim or by their device nodes.
func usesOf(ctx context.Context, v *vendor.Vendor, pod core.Pod, daemon bool, claims claims) (use, error) {
	out := use{any: limited(v, pod) || mounted(v, pod, daemon)}
	for _, name := range claimsOf(pod) {
		devices, err := claims.devices(ctx, claim{pod.Namespace, name})
		if err != nil {
			return use{}, err
		}
		out.devices = append(out.devices, devices...)
	}
	return out, nil
}

// limited reports whether a container of a pod has GPUs as a resource.
func limited(v *vendor.Vendor, pod core.Pod) bool {
	return slices.ContainsFunc(slices.Concat(pod.Spec.InitContainers, pod.Spec.Containers), func(c core.Container) bool {
		for name := range c.Resources.Limits {
			if v.GPU(string(name)) {
				return true
			}
		}
		return false
	})
}

// mounted reports whether a pod has device nodes of GPUs. A mount of all of /dev does not count for
// DaemonSets, since those for disks have it.
func mounted(v *vendor.Vendor, pod core.Pod, daemon bool) bool {
	return slices.ContainsFunc(pod.Spec.Volumes, func(volume core.Volume) bool {
		if volume.HostPath == nil {
			return false
		}
		at := path.Clean(volume.HostPath.Path)
		return at == "/dev" && !daemon || v.Device(at)
	})
}

// claim is the name of a ResourceClaim.
type claim struct{ namespace, name string }

// claims reads the devices of claims, each once: several pods may share one.
type claims struct {
	client *Client
	vendor *vendor.Vendor
	known  map[claim][]string
}

// devices returns the devices of a claim, none if the claim does not exist.
func (c claims) devices(ctx context.Context, at claim) ([]string, error) {
	if devices, ok := c.known[at]; ok {
		return devices, nil
	}
	devices, err := c.client.claimed(ctx, c.vendor, at.namespace, at.name)
	if err != nil && !errors.IsNotFound(err) {
		return nil, err
	}
	c.known[at] = devices
	return devices, nil
}

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

// counts reports whether a pod is the device plugin, which counts the partitions when it starts.
// The labeller has the same image and does not register with the kubelet.
func counts(v *vendor.Vendor, pod core.Pod) bool {
	return runs(v, pod, v.Plugin) && slices.ContainsFunc(pod.Spec.Volumes, func(at core.Volume) bool {
		return at.HostPath != nil && path.Clean(at.HostPath.Path) == "/var/lib/kubelet/device-plugins"
	})
}

// runs reports whether a container of the pod has one of the images, with any registry and
// tag. The device plugins of both vendors have the same image name in different repositories.
func runs(v *vendor.Vendor, pod core.Pod, images ...string) bool {
	return slices.ContainsFunc(pod.Spec.Containers, func(c core.Container) bool {
		return slices.Contains(images, image(c.Image)) && !strings.Contains(path.Dir(c.Image), v.Foreign)
	})
}

// image returns the last element of an image's repository.
func image(reference string) string {
	name, _, _ := strings.Cut(path.Base(reference), "@")
	name, _, _ = strings.Cut(name, ":")
	return name
}
