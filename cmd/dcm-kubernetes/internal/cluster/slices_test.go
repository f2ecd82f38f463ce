package cluster_test

import (
	"fmt"
	"testing"

	resource "k8s.io/api/resource/v1"

	"dcm/cmd/dcm-kubernetes/internal/cluster"
	"dcm/cmd/dcm-kubernetes/internal/vendor"
)

// slice returns a ResourceSlice with devices of the kinds "type mode".
func slice(driver, pool string, generation, count int64, kinds ...string) resource.ResourceSlice {
	s := resource.ResourceSlice{Spec: resource.ResourceSliceSpec{Driver: driver,
		Pool: resource.ResourcePool{Name: pool, Generation: generation, ResourceSliceCount: count}}}
	for _, k := range kinds {
		var kind, mode string
		fmt.Sscan(k, &kind, &mode)
		d := resource.Device{Attributes: map[resource.QualifiedName]resource.DeviceAttribute{"type": {StringValue: &kind}}}
		if mode != "" {
			d.Attributes["partitionProfile"] = resource.DeviceAttribute{StringValue: &mode}
		}
		s.Spec.Devices = append(s.Spec.Devices, d)
	}
	return s
}

func TestViewSlices(t *testing.T) {
	const ours = "gpu.amd.com"
	tests := map[string]struct {
		slices []resource.ResourceSlice
		want   string
	}{
		"none":             {nil, "map[]"},
		"another driver's": {[]resource.ResourceSlice{slice("gpu.example.org", "n1", 1, 1, "amdgpu spx_nps1")}, "map[]"},
		"GPUs and partitions": {[]resource.ResourceSlice{slice(ours, "n1", 1, 1, "amdgpu spx_nps1", "amdgpu-partition cpx_nps1", "amdgpu-partition cpx_nps1")},
			"map[cpx_nps1:2 spx_nps1:1]"},
		"a GPU that cannot be divided":  {[]resource.ResourceSlice{slice(ours, "n1", 1, 1, "amdgpu")}, "map[:1]"},
		"a device for virtual machines": {[]resource.ResourceSlice{slice(ours, "n1", 1, 1, "vfio", "amdgpu spx_nps1")}, "map[spx_nps1:1]"},
		"two slices of a pool":          {[]resource.ResourceSlice{slice(ours, "n1", 2, 2, "amdgpu spx_nps1"), slice(ours, "n1", 2, 2, "amdgpu spx_nps1")}, "map[spx_nps1:2]"},
		"an incomplete pool":            {[]resource.ResourceSlice{slice(ours, "n1", 2, 2, "amdgpu spx_nps1")}, "map[]"},
		"previous generation first":     {[]resource.ResourceSlice{slice(ours, "n1", 1, 1, "amdgpu spx_nps1"), slice(ours, "n1", 2, 1, "amdgpu-partition cpx_nps1")}, "map[cpx_nps1:1]"},
		"previous generation last":      {[]resource.ResourceSlice{slice(ours, "n1", 2, 1, "amdgpu-partition cpx_nps1"), slice(ours, "n1", 1, 1, "amdgpu spx_nps1")}, "map[cpx_nps1:1]"},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			if got := fmt.Sprint(cluster.ViewSlices(vendor.AMD, tt.slices)); got != tt.want {
				t.Errorf("there are %s, want %s", got, tt.want)
			}
		})
	}
}

func TestViewDevices(t *testing.T) {
	for name, test := range map[string]struct {
		vendor     *vendor.Vendor
		attributes map[resource.QualifiedName]string
		want       string
	}{
		"GPU of AMD":           {vendor.AMD, map[resource.QualifiedName]string{"type": "amdgpu", "pciAddr": "0000:0A:00.0"}, "[{n1 d [0000:0a:00.0]}]"},
		"partition of AMD":     {vendor.AMD, map[resource.QualifiedName]string{"type": "amdgpu-partition", "parentPciAddr": "0000:0a:00.0"}, "[{n1 d [0000:0a:00.0]}]"},
		"GPU of NVIDIA":        {vendor.NVIDIA, map[resource.QualifiedName]string{"type": "gpu", "uuid": "GPU-1", "resource.kubernetes.io/pciBusID": "0000:0a:00.0"}, "[{n1 d [gpu-1 0000:0a:00.0]}]"},
		"MIG instance":         {vendor.NVIDIA, map[resource.QualifiedName]string{"type": "mig", "uuid": "MIG-2", "parentUUID": "GPU-1"}, "[{n1 d [mig-2 gpu-1]}]"},
		"unknown GPU":          {vendor.AMD, map[resource.QualifiedName]string{"type": "amdgpu"}, "[{n1 d []}]"},
		"for virtual machines": {vendor.NVIDIA, map[resource.QualifiedName]string{"type": "vfio", "uuid": "GPU-1"}, "[]"},
	} {
		t.Run(name, func(t *testing.T) {
			s := slice(test.vendor.Driver, "n1", 1, 1)
			d := resource.Device{Name: "d", Attributes: make(map[resource.QualifiedName]resource.DeviceAttribute)}
			for key, value := range test.attributes {
				d.Attributes[key] = resource.DeviceAttribute{StringValue: &value}
			}
			s.Spec.Devices = append(s.Spec.Devices, d)
			if got := fmt.Sprint(cluster.ViewDevices(test.vendor, []resource.ResourceSlice{s})); got != test.want {
				t.Errorf("there are %s, want %s", got, test.want)
			}
		})
	}
}

// With DynamicMIG the driver publishes each instance that it could create. Those consume counters of their
// GPU, since they exclude each other.
func TestViewPublished_PossiblePartitions(t *testing.T) {
	profile := "1g.10gb"
	devices := func(counters bool) []resource.ResourceSlice {
		s := slice("gpu.nvidia.com", "n1", 1, 1, "gpu", "mig", "mig")
		for i := range s.Spec.Devices {
			d := &s.Spec.Devices[i]
			if d.Name = fmt.Sprint("d", i); i > 0 {
				d.Attributes["profile"] = resource.DeviceAttribute{StringValue: &profile}
			}
			if counters {
				d.ConsumesCounters = []resource.DeviceCounterConsumption{{CounterSet: "gpu-0"}}
			}
		}
		return []resource.ResourceSlice{s}
	}
	for counters, want := range map[bool]string{
		false: "map[:1 1g.10gb:2] [{n1 d0 []} {n1 d1 []} {n1 d2 []}] ",
		true: "map[:1] [{n1 d0 []}] the DRA driver gpu.nvidia.com partitions GPUs for claims: it publishes 2 possible partitions " +
			"(devices with consumesCounters). hint: remove DynamicMIG from its feature gates",
	} {
		p := cluster.ViewPublished(vendor.NVIDIA, devices(counters))
		if got := fmt.Sprint(p.Counts, " ", p.Devices, " ", p.Rival); got != want {
			t.Errorf("with counters %v: published are\n%s, want\n%s", counters, got, want)
		}
	}
}
