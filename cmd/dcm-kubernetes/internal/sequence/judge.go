package sequence

import (
	"fmt"
	"hash/fnv"
	"maps"
	"slices"
	"strings"

	"dcm/cmd/dcm-kubernetes/internal/vendor"
)

// Labels of NVIDIA's GPU operator and of GPU Feature Discovery that decide whether a change is
// possible.
const (
	upgradeLabel  = "nvidia.com/gpu-driver-upgrade-state"
	strategyLabel = "nvidia.com/mig.strategy"
	workloadLabel = "nvidia.com/gpu.workload.config"
	labelPrefix   = "nvidia.com/"
	sharingSuffix = ".sharing-strategy"
)

// judge returns why NVIDIA's software on the node does not permit the change, or would fail after it.
func judge(s Input) *Outcome {
	if s.Node.vendor() != vendor.NVIDIA {
		return nil
	}
	why := judgeNode(s.Node)
	if why == "" && s.Pods != nil && s.Pods.Plugin {
		why = judgeLayout(s)
	}
	if why == "" {
		return nil
	}
	return &Outcome{Reason: PartitionFailure, Message: why, Retry: true, Judged: judged(s.Node)}
}

// judgeNode returns why the GPU operator does not permit a change now.
func judgeNode(n Node) string {
	switch state := n.Labels[upgradeLabel]; state {
	case "", "upgrade-done", "upgrade-failed":
	default:
		return fmt.Sprintf("the GPU operator replaces the driver of this node (%s=%s). hint: wait; the change begins after that", upgradeLabel, state)
	}
	if config := n.Labels[workloadLabel]; strings.HasPrefix(config, "vm-") {
		return fmt.Sprintf("the GPUs of this node are for virtual machines (%s=%s, want container). hint: change that label, or remove %s", workloadLabel, config, vendor.NVIDIA.Profile)
	}
	for _, label := range vendor.NVIDIA.Labels() {
		if value := n.Labels[label]; strings.HasPrefix(value, "paused-for-") {
			return fmt.Sprintf("another manager has paused an operand of this node (%s=%s). hint: wait until it has finished, or set the label to true", label, value)
		}
	}
	return ""
}

// judgeLayout returns why the device plugin could not offer the profile.
func judgeLayout(s Input) string {
	groups := layout(s)
	profiles, divided := make(map[string]bool), 0
	for _, g := range groups {
		if g.Enabled {
			divided++
		}
		for profile := range g.Counts {
			profiles[profile] = true
		}
	}
	if divided == 0 {
		return ""
	}
	how := strategy(s)
	const hint = ". hint: set mig.strategy of the GPU operator, or --mig-strategy of the device plugin, to mixed"
	for _, profile := range slices.Sorted(maps.Keys(profiles)) {
		if how != none && strings.Contains(profile, "c.") {
			return fmt.Sprintf("the device plugin cannot offer compute instances (found %s). hint: select a configuration without them", profile)
		}
	}
	switch {
	case how == none:
		return "the device plugin offers whole GPUs only (found MIG strategy none, want single or mixed)" + hint
	case shared(s.Node) == "mps":
		return "the device plugin cannot share MIG instances by MPS. hint: select another sharing strategy for this node"
	case how == single && slices.ContainsFunc(groups, func(g MIGGroup) bool { return !g.Enabled || len(g.Counts) == 0 }):
		return "the MIG strategy single needs instances on each GPU (found GPUs without)" + hint
	case how == single && len(profiles) > 1:
		return fmt.Sprintf("the MIG strategy single needs one MIG profile on all GPUs (found %s)%s", few(slices.Sorted(maps.Keys(profiles))), hint)
	}
	return ""
}

// layout returns the division that the selected profile makes; nil if it is unknown, as for a
// profile in dcm's own format.
func layout(s Input) []MIGGroup {
	name := s.Node.Profile
	if groups, ok := s.Config.Layouts[name]; ok {
		return groups
	}
	switch what, ok := strings.CutPrefix(name, "all-"); {
	case !ok || what == "disabled":
		return nil
	case what == "enabled":
		return []MIGGroup{{Enabled: true}}
	case what == "balanced":
		return []MIGGroup{{Enabled: true, Counts: map[string]int{"1g": 2, "2g": 1, "3g": 1}}}
	case strings.Contains(what, "g.") && strings.Contains(what, "gb"):
		return []MIGGroup{{Enabled: true, Counts: map[string]int{what: 1}}}
	}
	return nil
}

// judged identifies the labels that judge reads, so that a changed label is judged again
// immediately.
func judged(n Node) string {
	h := fnv.New32a()
	for _, label := range slices.Sorted(maps.Keys(n.Labels)) {
		if slices.Contains([]string{upgradeLabel, workloadLabel, strategyLabel}, label) || slices.Contains(vendor.NVIDIA.Labels(), label) || strings.HasSuffix(label, sharingSuffix) {
			fmt.Fprintf(h, "%s=%s\n", label, n.Labels[label])
		}
	}
	return fmt.Sprintf("%08x", h.Sum32())
}

// shared returns how the device plugin shares a resource, as GPU Feature Discovery reports.
func shared(n Node) string {
	for _, label := range slices.Sorted(maps.Keys(n.Labels)) {
		if value := n.Labels[label]; strings.HasPrefix(label, labelPrefix) && strings.HasSuffix(label, sharingSuffix) && value != "none" {
			return value
		}
	}
	return ""
}
