package cluster_test

import (
	"fmt"
	"testing"

	core "k8s.io/api/core/v1"
	resource "k8s.io/api/resource/v1"

	"dcm/cmd/dcm-kubernetes/internal/cluster"
	"dcm/cmd/dcm-kubernetes/internal/vendor"
)

func TestViewPods_NVIDIA(t *testing.T) {
	app := func(name string) func(*core.Pod) {
		return func(p *core.Pod) {
			p.Labels = map[string]string{"app": name}
			p.Status.Phase = core.PodSucceeded
		}
	}
	with := func(image string, name, value string) func(*core.Pod) {
		return func(p *core.Pod) {
			runs(image)(p)
			p.Spec.Containers[0].Env = []core.EnvVar{{Name: name, Value: value}}
		}
	}
	const dra = "nvcr.io/nvidia/k8s-dra-driver-gpu:v25.8"
	tests := map[string]struct {
		pod  core.Pod
		want string // numbers of pods that use and serve GPUs, device plugin, strategy, whether there is a rival
	}{
		"a GPU":          {pod("Job", has("nvidia.com/gpu")), "1 0 false  false"},
		"a shared GPU":   {pod("Job", has("nvidia.com/gpu.shared")), "1 0 false  false"},
		"an instance":    {pod("Job", has("nvidia.com/mig-1g.10gb.me")), "1 0 false  false"},
		"AMD's":          {pod("Job", has("amd.com/gpu")), "0 0 false  false"},
		"a network card": {pod("Job", has("nvidia.com/hostdev")), "0 0 false  false"},
		"a device node":  {pod("Job", mounts("/dev/nvidia0")), "1 0 false  false"},
		"the plugin": {pod("DaemonSet", func(p *core.Pod) {
			mounts("/var/lib/kubelet/device-plugins")(p)
			with("nvcr.io/nvidia/k8s-device-plugin:v0.20.0", "MIG_STRATEGY", "single")(p)
		}), "0 1 true single false"},
		"the plugin, by option": {pod("DaemonSet", func(p *core.Pod) {
			mounts("/var/lib/kubelet/device-plugins")(p)
			runs("mirror.example.org/k8s-device-plugin:v0.20.0")(p)
			p.Spec.Containers[0].Args = []string{"--mig-strategy", "mixed"}
		}), "0 1 true mixed false"},
		"AMD's plugin": {pod("DaemonSet", func(p *core.Pod) {
			mounts("/var/lib/kubelet/device-plugins")(p)
			runs("docker.io/rocm/k8s-device-plugin:1.31")(p)
		}), "0 0 false  false"},
		"a client of the operator": {pod("DaemonSet", func(p *core.Pod) {
			p.Spec.NodeSelector = map[string]string{"nvidia.com/gpu.deploy.client": "true"}
		}), "0 1 false  false"},
		"the driver": {pod("DaemonSet", func(p *core.Pod) {
			p.Spec.NodeSelector = map[string]string{"nvidia.com/gpu.deploy.driver": "true"}
			mounts("/run/nvidia")(p)
		}), "0 0 false  false"},
		"a completed validator": {pod("DaemonSet", app("nvidia-cuda-validator")), "0 1 false  false"},
		"the MIG manager":       {pod("DaemonSet", runs("nvcr.io/nvidia/cloud-native/k8s-mig-manager:v0.15.0")), "0 0 false  true"},
		"the DRA driver":        {pod("DaemonSet", runs("registry.k8s.io/dra-driver-nvidia/dra-driver-nvidia-gpu:v0.4")), "0 1 false  false"},
		"a DRA driver that creates instances": {pod("DaemonSet", with("nvcr.io/nvidia/k8s-dra-driver-gpu:v25.8", "FEATURE_GATES", "DynamicMIG=true")),
			"0 1 false  true"},
		"the gate, capitalized":       {pod("DaemonSet", with(dra, "FEATURE_GATES", "Other=false,DynamicMIG=True")), "0 1 false  true"},
		"the gate, by number":         {pod("DaemonSet", with(dra, "FEATURE_GATES", "DynamicMIG=1")), "0 1 false  true"},
		"the gate, off":               {pod("DaemonSet", with(dra, "FEATURE_GATES", "DynamicMIG=0,Other=true")), "0 1 false  false"},
		"a gate of a similar name":    {pod("DaemonSet", with(dra, "FEATURE_GATES", "NoDynamicMIG=true")), "0 1 false  false"},
		"all gates of alpha features": {pod("DaemonSet", with(dra, "FEATURE_GATES", "AllAlpha=true")), "0 1 false  true"},
		"all other gates of alpha":    {pod("DaemonSet", with(dra, "FEATURE_GATES", "AllAlpha=true,DynamicMIG=false")), "0 1 false  false"},
		"the gate, as an argument": {pod("DaemonSet", func(p *core.Pod) {
			runs(dra)(p)
			p.Spec.Containers[0].Args = []string{"--feature-gates=Other=true,DynamicMIG=T"}
		}), "0 1 false  true"},
		"gates of a ConfigMap": {pod("DaemonSet", func(p *core.Pod) {
			runs(dra)(p)
			p.Spec.Containers[0].Env = []core.EnvVar{{Name: "FEATURE_GATES", ValueFrom: new(core.EnvVarSource)}}
		}), "0 1 false  true"},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			got, err := cluster.ViewPods(t.Context(), new(cluster.Client), vendor.NVIDIA, []core.Pod{tt.pod}, cluster.Self{})
			if err != nil {
				t.Fatal(err)
			}
			if text := fmt.Sprint(len(got.Work), " ", len(got.Operands), " ", got.Plugin, " ", got.Strategy, " ", got.Rival != ""); text != tt.want {
				t.Errorf("it is %q, want %q", text, tt.want)
			}
		})
	}
}

func TestViewSlices_NVIDIA(t *testing.T) {
	s := slice("gpu.nvidia.com", "n1", 1, 1, "gpu", "mig", "vfio")
	profile := "1g.10gb"
	s.Spec.Devices[1].Attributes["profile"] = resource.DeviceAttribute{StringValue: &profile}
	if got := fmt.Sprint(cluster.ViewSlices(vendor.NVIDIA, []resource.ResourceSlice{s})); got != "map[:1 1g.10gb:1]" {
		t.Errorf("there are %s", got)
	}
}
