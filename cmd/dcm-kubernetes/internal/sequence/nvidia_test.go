package sequence_test

import (
	"strings"
	"testing"

	"dcm/cmd/dcm-kubernetes/internal/sequence"
	"dcm/cmd/dcm-kubernetes/internal/vendor"
)

// h100 returns a node of NVIDIA in the last phase, with a ready device plugin.
func h100(strategy string, partitions map[string]int, allocatable map[string]int64) sequence.Input {
	s := at(sequence.Refreshing, 0)
	s.Node.Vendor, s.Node.Op.Vendor = vendor.NVIDIA, vendor.NVIDIA.Name
	s.Node.Labels = map[string]string{}
	if strategy != "" {
		s.Node.Labels["nvidia.com/mig.strategy"] = strategy
	}
	s.Node.Allocatable, s.Host.Partitions, s.Host.Whole = allocatable, partitions, 8
	s.Pods = operand(func(*sequence.Pod) {})
	return s
}

func TestRefreshing_MIGStrategies(t *testing.T) {
	type counts = map[string]int64
	half := map[string]int{"": 4, "3g.40gb": 8, "1g.10gb+me": 4}
	sevens := map[string]int{"1g.10gb": 56}
	tests := map[string]struct {
		input  sequence.Input
		change func(*sequence.Input)
		want   string // what it waits for; "" if it ends
	}{
		"none":              {h100("", sevens, counts{"nvidia.com/gpu": 8}), nil, ""},
		"none, old count":   {h100("", sevens, counts{"nvidia.com/gpu": 56}), nil, "nvidia.com/gpu=8 (found nvidia.com/gpu=56)"},
		"single":            {h100("single", sevens, counts{"nvidia.com/gpu": 56}), nil, ""},
		"single, MIG off":   {h100("single", map[string]int{"": 8}, counts{"nvidia.com/gpu": 8}), nil, ""},
		"single, old count": {h100("single", sevens, counts{"nvidia.com/gpu": 8}), nil, "nvidia.com/gpu=56 (found nvidia.com/gpu=8)"},
		"the plugin's setting": {h100("", sevens, counts{"nvidia.com/gpu": 56}), func(s *sequence.Input) {
			s.Pods.Strategy = "single"
		}, ""},
		"mixed": {h100("mixed", half, counts{"nvidia.com/gpu": 4, "nvidia.com/mig-3g.40gb": 8, "nvidia.com/mig-1g.10gb.me": 4, "nvidia.com/mig-7g.80gb": 0}), nil, ""},
		"mixed, one profile missing": {h100("mixed", half, counts{"nvidia.com/gpu": 4, "nvidia.com/mig-3g.40gb": 8}), nil,
			"nvidia.com/gpu=4 nvidia.com/mig-1g.10gb.me=4 nvidia.com/mig-3g.40gb=8 (found nvidia.com/gpu=4 nvidia.com/mig-3g.40gb=8)"},
		"shared": {h100("mixed", sevens, counts{"nvidia.com/mig-1g.10gb.shared": 224}), func(s *sequence.Input) {
			s.Node.Labels["nvidia.com/mig-1g.10gb.replicas"] = "4"
		}, ""},
		"slices": {h100("mixed", half, nil), func(s *sequence.Input) {
			s.Node.Op.Counted, s.Pods.Plugin, s.Pods.Driver = false, false, true
			s.Pods.Slices = map[string]int{"": 4, "3g.40gb": 8, "1g.10gb+me": 4}
		}, ""},
		"slices of another profile": {h100("mixed", half, nil), func(s *sequence.Input) {
			s.Node.Op.Counted, s.Pods.Plugin, s.Pods.Driver = false, false, true
			s.Pods.Slices = map[string]int{"": 4, "3g.40gb": 12}
		}, "the ResourceSlices to show whole GPUs=4 1g.10gb+me=4 3g.40gb=8 (found whole GPUs=4 3g.40gb=12)"},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			s := tt.input
			if tt.change != nil {
				tt.change(&s)
			}
			step := sequence.Next(s)
			if tt.want == "" {
				if got := summary(step.Act); got != "patch success last=success SuccessfullyPartitioned" {
					t.Errorf("next is %q: %s", got, step.Condition.Message)
				}
				return
			}
			if !strings.HasSuffix(step.Condition.Message, tt.want) {
				t.Errorf("message is %q, want %q", step.Condition.Message, tt.want)
			}
		})
	}
}

// AMD's vocabulary has no word for a reboot.
func TestRebooting_State(t *testing.T) {
	for v, want := range map[*vendor.Vendor]string{vendor.AMD: "sequence.Wait {For:5s}", vendor.NVIDIA: "patch applying cordon taint rebooting"} {
		s := at(sequence.Applying, 0)
		s.Node.Vendor, s.Host.Running, s.Host.Rebooting, s.Node.State = v, true, true, sequence.InProgress
		if got := summary(sequence.Next(s).Act); got != want {
			t.Errorf("%s: next is %q, want %q", v.Name, got, want)
		}
		s.Node.State = sequence.Rebooting
		if got := summary(sequence.Next(s).Act); got != "sequence.Wait {For:5s}" {
			t.Errorf("%s: then it is %q", v.Name, got)
		}
	}
}

// Each refusal is before the drain, and its condition, state and event have the reason and a hint.
func TestJudge_BeforeDrain(t *testing.T) {
	label := func(key, value string) func(*sequence.Input) {
		return func(s *sequence.Input) { s.Node.Labels["nvidia.com/"+key] = value }
	}
	layout := func(groups ...sequence.MIGGroup) func(*sequence.Input) {
		return func(s *sequence.Input) { s.Config.Layouts = map[string][]sequence.MIGGroup{"all-balanced": groups} }
	}
	one := sequence.MIGGroup{Enabled: true, Counts: map[string]int{"1g.10gb": 7}}
	tests := map[string]struct {
		strategy, profile string
		change            func(*sequence.Input)
		want              string // "" for none
	}{
		"mixed":                    {"mixed", "all-balanced", nil, ""},
		"mixed, empty":             {"mixed", "all-enabled", nil, ""},
		"none":                     {"", "all-balanced", nil, "whole GPUs only (found MIG strategy none, want single or mixed)"},
		"none, MIG off":            {"", "all-disabled", nil, ""},
		"none, no device plugin":   {"", "all-balanced", func(s *sequence.Input) { s.Pods.Plugin = false }, ""},
		"none, own format":         {"", "halves", nil, ""},
		"single":                   {"single", "all-1g.10gb", nil, ""},
		"single, MIG off":          {"single", "all-disabled", nil, ""},
		"single, balanced":         {"single", "all-balanced", nil, "needs one MIG profile on all GPUs (found 1g, 2g, 3g)"},
		"single, empty":            {"single", "all-enabled", nil, "needs instances on each GPU (found GPUs without)"},
		"single, some GPUs off":    {"single", "all-balanced", layout(one, sequence.MIGGroup{}), "needs instances on each GPU"},
		"single, one profile":      {"single", "all-balanced", layout(one, one), ""},
		"compute instances":        {"mixed", "all-balanced", layout(sequence.MIGGroup{Enabled: true, Counts: map[string]int{"1c.3g.40gb": 3}}), "cannot offer compute instances (found 1c.3g.40gb)"},
		"MPS":                      {"mixed", "all-1g.10gb", label("gpu.sharing-strategy", "mps"), "cannot share MIG instances by MPS"},
		"MPS, MIG off":             {"mixed", "all-disabled", label("gpu.sharing-strategy", "mps"), ""},
		"time-slicing":             {"mixed", "all-1g.10gb", label("gpu.sharing-strategy", "time-slicing"), ""},
		"not shared":               {"mixed", "all-1g.10gb", label("gpu.sharing-strategy", "none"), ""},
		"virtual machines":         {"mixed", "all-balanced", label("gpu.workload.config", "vm-vgpu"), "for virtual machines (nvidia.com/gpu.workload.config=vm-vgpu"},
		"containers":               {"mixed", "all-balanced", label("gpu.workload.config", "container"), ""},
		"driver upgrade":           {"mixed", "all-balanced", label("gpu-driver-upgrade-state", "drain-required"), "replaces the driver of this node (nvidia.com/gpu-driver-upgrade-state=drain-required)"},
		"driver upgrade, finished": {"mixed", "all-balanced", label("gpu-driver-upgrade-state", "upgrade-done"), ""},
		"paused by another":        {"mixed", "all-balanced", label("gpu.deploy.dcgm", "paused-for-mig-change"), "another manager has paused an operand of this node (nvidia.com/gpu.deploy.dcgm=paused-for-mig-change)"},
		"another manager":          {"mixed", "all-balanced", func(s *sequence.Input) { s.Pods.Rival = "NVIDIA's MIG manager. hint: end it" }, "NVIDIA's MIG manager"},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			s := idle()
			s.Node.Vendor, s.Node.Profile, s.Node.Labels = vendor.NVIDIA, tt.profile, map[string]string{}
			s.Pods.Plugin = true
			if tt.strategy != "" {
				s.Node.Labels["nvidia.com/mig.strategy"] = tt.strategy
			}
			if tt.change != nil {
				tt.change(&s)
			}
			step := sequence.Next(s)
			if tt.want == "" {
				if got := summary(step.Act); strings.TrimSpace(got) != "patch waiting" {
					t.Errorf("next is %q: %s", got, step.Condition.Message)
				}
				return
			}
			patch, ok := step.Act.(sequence.Patch)
			if !ok || patch.State != sequence.Failure || patch.Cordon || patch.Event == nil || !patch.Event.Warning || patch.Event.Note != step.Condition.Message {
				t.Fatalf("next is %+v", step.Act)
			}
			if got := step.Condition.Message; !strings.Contains(got, tt.want) || !strings.Contains(got, ". hint: ") {
				t.Errorf("message is %q, want %q and a hint", got, tt.want)
			}
		})
	}
}

// A changed label is judged again immediately, not after the retry time.
func TestJudge_AgainAfterLabelChange(t *testing.T) {
	s := idle()
	s.Node.Vendor, s.Node.Profile, s.Node.Labels = vendor.NVIDIA, "all-balanced", map[string]string{"nvidia.com/gpu-driver-upgrade-state": "drain-required", "nvidia.com/mig.strategy": "mixed"}
	s.Node.Last = sequence.Next(s).Act.(sequence.Patch).Last
	if got := summary(sequence.Next(s).Act); got != "sequence.Wait {For:1h0m0s}" {
		t.Errorf("next is %q", got)
	}
	s.Node.Labels["other"] = "x"
	if got := summary(sequence.Next(s).Act); got != "sequence.Wait {For:1h0m0s}" {
		t.Errorf("after another label: %q", got)
	}
	s.Node.Labels["nvidia.com/gpu-driver-upgrade-state"] = "upgrade-done"
	if got := summary(sequence.Next(s).Act); strings.TrimSpace(got) != "patch waiting" {
		t.Errorf("after the upgrade: %q", got)
	}
}
