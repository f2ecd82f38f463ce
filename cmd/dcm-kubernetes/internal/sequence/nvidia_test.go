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
