package cluster

import (
	resource "k8s.io/api/resource/v1"

	"dcm/cmd/dcm-kubernetes/internal/vendor"
)

// ViewSlices counts the devices of the vendor's DRA driver by mode, "" for an unknown mode or a GPU
// without MIG. An incomplete pool of the latest generation does not count.
func ViewSlices(v *vendor.Vendor, all []resource.ResourceSlice) map[string]int {
	pools := make(map[string][]resource.ResourceSlice)
	for _, s := range all {
		if s.Spec.Driver != v.Driver {
			continue
		}
		pool := s.Spec.Pool.Name
		if known := pools[pool]; len(known) > 0 && known[0].Spec.Pool.Generation != s.Spec.Pool.Generation {
			if known[0].Spec.Pool.Generation > s.Spec.Pool.Generation {
				continue
			}
			pools[pool] = nil
		}
		pools[pool] = append(pools[pool], s)
	}
	out := make(map[string]int)
	for _, pool := range pools {
		if int64(len(pool)) != pool[0].Spec.Pool.ResourceSliceCount {
			continue
		}
		for _, s := range pool {
			for _, d := range s.Spec.Devices {
				if mode, ok := modeOf(v, d); ok {
					out[mode]++
				}
			}
		}
	}
	return out
}

// modeOf returns the mode of a GPU or a partition. Devices for virtual machines are neither.
func modeOf(v *vendor.Vendor, d resource.Device) (mode string, ok bool) {
	attribute, ok := v.Kinds[text(d, "type")]
	return text(d, resource.QualifiedName(attribute)), ok
}

func text(d resource.Device, name resource.QualifiedName) string {
	if value := d.Attributes[name].StringValue; value != nil {
		return *value
	}
	return ""
}
