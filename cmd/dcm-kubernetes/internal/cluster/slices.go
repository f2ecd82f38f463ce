package cluster

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	resource "k8s.io/api/resource/v1"

	"dcm/cmd/dcm-kubernetes/internal/sequence"
	"dcm/cmd/dcm-kubernetes/internal/vendor"
)

// Published are the devices that the DRA driver publishes on a node.
type Published struct {
	Counts  map[string]int    // see [ViewSlices]
	Devices []sequence.Device // see [ViewDevices]
	Rival   string            // why the driver partitions GPUs itself, with a hint; "" if it does not
}

// ViewPublished converts the slices of a node.
func ViewPublished(v *vendor.Vendor, all []resource.ResourceSlice) Published {
	partitions := 0
	for _, s := range latest(v, all) {
		for _, d := range s.Spec.Devices {
			if possible(v, d) {
				partitions++
			}
		}
	}
	return Published{ViewSlices(v, all), ViewDevices(v, all), rivalry(v, partitions)}
}

// rivalry names a DRA driver that publishes partitions which it would create for claims.
func rivalry(v *vendor.Vendor, partitions int) string {
	if partitions == 0 {
		return ""
	}
	return fmt.Sprintf("the DRA driver %s partitions GPUs for claims: it publishes %d possible partitions (devices with consumesCounters). hint: remove %s from its feature gates",
		v.Driver, partitions, v.Gate)
}

// ViewSlices counts the devices of the vendor's DRA driver by mode, "" for an unknown mode or a GPU
// without MIG.
func ViewSlices(v *vendor.Vendor, all []resource.ResourceSlice) map[string]int {
	out := make(map[string]int)
	for _, s := range latest(v, all) {
		for _, d := range s.Spec.Devices {
			if mode, ok := modeOf(v, d); ok {
				out[mode]++
			}
		}
	}
	return out
}

// ViewDevices returns the devices that [ViewSlices] counts, with their GPUs.
func ViewDevices(v *vendor.Vendor, all []resource.ResourceSlice) (out []sequence.Device) {
	for _, s := range latest(v, all) {
		for _, d := range s.Spec.Devices {
			if _, ok := modeOf(v, d); !ok {
				continue
			}
			one := sequence.Device{Pool: s.Spec.Pool.Name, Name: d.Name}
			for _, attribute := range v.Parents {
				if value := text(d, resource.QualifiedName(attribute)); value != "" {
					one.GPU = append(one.GPU, strings.ToLower(value))
				}
			}
			out = append(out, one)
		}
	}
	return out
}

// latest returns the slices of the vendor's driver in the latest generation of each pool. An incomplete
// pool has none.
func latest(v *vendor.Vendor, all []resource.ResourceSlice) (out []resource.ResourceSlice) {
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
	for _, name := range slices.Sorted(maps.Keys(pools)) {
		if pool := pools[name]; int64(len(pool)) == pool[0].Spec.Pool.ResourceSliceCount {
			out = append(out, pool...)
		}
	}
	return out
}

// modeOf returns the mode of a GPU or a partition that exists. Devices for virtual machines are neither.
func modeOf(v *vendor.Vendor, d resource.Device) (mode string, ok bool) {
	attribute, ok := v.Kinds[text(d, "type")]
	return text(d, resource.QualifiedName(attribute)), ok && !possible(v, d)
}

// possible reports whether a device is a partition that the driver would create for a claim. Such partitions
// consume counters of their GPU, since only some of them can exist concurrently.
func possible(v *vendor.Vendor, d resource.Device) bool {
	return text(d, "type") == v.Partition && len(d.ConsumesCounters) > 0
}

func text(d resource.Device, name resource.QualifiedName) string {
	if value := d.Attributes[name].StringValue; value != nil {
		return *value
	}
	return ""
}
