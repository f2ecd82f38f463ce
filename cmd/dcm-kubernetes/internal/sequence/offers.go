package sequence

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"dcm/cmd/dcm-kubernetes/internal/vendor"
)

// offered reports whether the device plugin offers what dcm reports.
func offered(s Input) bool {
	if s.Node.vendor() == vendor.NVIDIA {
		return offeredMIG(s)
	}
	// Under one resource name or under one name for each mode.
	one := map[string]int64{"amd.com/gpu": int64(s.Host.Total())}
	each := make(map[string]int64)
	for mode, n := range nonZero(s.Host.Partitions) {
		each["amd.com/"+mode] += int64(n)
	}
	now := nonZero(s.Node.Allocatable)
	return maps.Equal(now, one) || maps.Equal(now, each)
}

// expected describes what the device plugin has to offer.
func expected(s Input) string {
	if s.Node.vendor() == vendor.NVIDIA {
		return resources(nonZero(migResources(s)))
	}
	return fmt.Sprintf("%d partitions", s.Host.Total())
}

// The strategies of NVIDIA's device plugin.
const (
	none   = "none"
	single = "single"
	mixed  = "mixed"
)

// strategy returns how NVIDIA's device plugin offers MIG. GPU Feature Discovery sets the label for
// single and mixed.
func strategy(s Input) string {
	if value := s.Node.Labels[strategyLabel]; value != "" {
		return value
	}
	if s.Pods != nil && s.Pods.Strategy != "" {
		return s.Pods.Strategy
	}
	return none
}

// migResources returns the resources that NVIDIA's device plugin offers for the instances that dcm
// reports.
func migResources(s Input) map[string]int64 {
	out := make(map[string]int64)
	whole, instances := int64(s.Host.Partitions[""]), int64(s.Host.Total()-s.Host.Partitions[""])
	switch strategy(s) {
	case mixed:
		for profile, n := range s.Host.Partitions {
			name := "nvidia.com/gpu"
			if profile != "" {
				name = "nvidia.com/mig-" + strings.ReplaceAll(profile, "+", ".")
			}
			out[name] += int64(n)
		}
	case single:
		out["nvidia.com/gpu"] = whole + instances
	default:
		out["nvidia.com/gpu"] = int64(s.Host.Whole)
	}
	for name := range out {
		out[name] *= replicas(s.Node, name)
	}
	return out
}

// replicas returns by how many the device plugin multiplies a resource that it shares, as GPU Feature
// Discovery reports.
func replicas(n Node, resource string) int64 {
	count, err := strconv.ParseInt(n.Labels[resource+".replicas"], 10, 64)
	if err != nil || count < 1 {
		return 1
	}
	return count
}

// offeredMIG reports whether NVIDIA's device plugin offers the instances. A shared resource may have
// the suffix ".shared".
func offeredMIG(s Input) bool {
	now := make(map[string]int64)
	for name, n := range s.Node.Allocatable {
		now[strings.TrimSuffix(name, ".shared")] += n
	}
	return maps.Equal(nonZero(now), nonZero(migResources(s)))
}

// published reports whether the DRA driver publishes as many devices as dcm reports, for each mode
// or, if the driver does not publish modes, in total.
func published(devices map[string]int, host Host) bool {
	if devices[""] > 0 && host.Whole == 0 {
		return Host{Partitions: devices}.Total() == host.Total()
	}
	return maps.Equal(nonZero(devices), nonZero(host.Partitions))
}

// nonZero returns the counts that are not 0.
func nonZero[N int | int64](counts map[string]N) map[string]N {
	out := maps.Clone(counts)
	maps.DeleteFunc(out, func(_ string, n N) bool { return n == 0 })
	return out
}

// offers reports whether the node offers a GPU. The kubelet keeps the resource names of a device
// plugin that has ended, with a count of 0.
func offers(allocatable map[string]int64) bool {
	for _, n := range allocatable {
		if n > 0 {
			return true
		}
	}
	return false
}

func resources[N int | int64](allocatable map[string]N) string {
	var out []string
	for _, name := range slices.Sorted(maps.Keys(allocatable)) {
		label := name
		if label == "" {
			label = "whole GPUs"
		}
		out = append(out, fmt.Sprintf("%s=%d", label, allocatable[name]))
	}
	if len(out) == 0 {
		return "none"
	}
	return strings.Join(out, " ")
}
