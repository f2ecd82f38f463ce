package sequence_test

import (
	"slices"
	"testing"
	"time"

	"dcm/cmd/dcm-kubernetes/internal/sequence"
)

// dra returns a node with a DRA driver and two GPUs in some phase. The target changes the first GPU, and
// each GPU has a pod.
func dra(phase sequence.Phase) sequence.Input {
	s := at(phase, time.Minute)
	s.Node.Allocatable, s.Node.Op.Counted, s.Node.Op.Operands = nil, false, nil
	s.Leases.All[0].Holder = "n1/op"
	s.Plan.GPUs = []string{"a", "uuid-a"}
	s.Taints = &sequence.DeviceTaints{Served: true}
	s.Pods = &sequence.Pods{Driver: true, Devices: []sequence.Device{{Pool: "n1", Name: "g0", GPU: []string{"a"}}, {Pool: "n1", Name: "g1", GPU: []string{"b"}}}}
	for _, device := range []string{"n1/g0", "n1/g1"} {
		s.Pods.Work = append(s.Pods.Work, sequence.Pod{Namespace: "d", Name: "on-" + device, UID: device, Owner: "d/rs", Devices: []string{device}})
	}
	if phase == sequence.Waiting {
		return s
	}
	s.Node.Op.GPUs, s.Node.Op.Devices = s.Plan.GPUs, []string{"g0"}
	if phase == sequence.Sparing {
		s.Node.Cordoned, s.Node.Tainted, s.Taints.Devices = false, false, []string{"g0"}
	}
	return s
}

func TestSparing(t *testing.T) {
	const wholeNode = "patch draining cordon taint in-progress PartitionInProgress"
	tests := []struct {
		name   string
		from   sequence.Input
		change func(*sequence.Input)
		want   string
	}{
		{"some GPUs change", dra(sequence.Waiting), func(*sequence.Input) {}, "patch sparing in-progress PartitionInProgress"},
		{"by UUID", dra(sequence.Waiting), func(s *sequence.Input) { s.Pods.Devices[0].GPU = []string{"uuid-a"} }, "patch sparing in-progress PartitionInProgress"},
		{"cordoned before", dra(sequence.Waiting), func(s *sequence.Input) { s.Node.Cordoned = true }, "patch sparing cordon in-progress PartitionInProgress"},
		{"device taints not served", dra(sequence.Waiting), func(s *sequence.Input) { s.Taints.Served = false }, wholeNode},
		{"device taints not read", dra(sequence.Waiting), func(s *sequence.Input) { s.Taints = nil }, wholeNode},
		{"all GPUs change, or dcm is older", dra(sequence.Waiting), func(s *sequence.Input) { s.Plan.GPUs = nil }, wholeNode},
		{"a reload", dra(sequence.Waiting), func(s *sequence.Input) { s.Plan.Reload = true }, wholeNode},
		{"a device plugin", dra(sequence.Waiting), func(s *sequence.Input) { s.Pods.Plugin = true }, wholeNode},
		{"resources of a device plugin", dra(sequence.Waiting), func(s *sequence.Input) { s.Node.Allocatable = map[string]int64{"amd.com/gpu": 8} }, wholeNode},
		{"a pod with any GPU", dra(sequence.Waiting), func(s *sequence.Input) { s.Pods.Work[1].Devices = nil }, wholeNode},
		{"a device of an unknown GPU", dra(sequence.Waiting), func(s *sequence.Input) { s.Pods.Devices[1].GPU = nil }, wholeNode},
		{"a pool of another name", dra(sequence.Waiting), func(s *sequence.Input) { s.Pods.Devices[1].Pool = "x" }, wholeNode},
		{"all devices change", dra(sequence.Waiting), func(s *sequence.Input) { s.Pods.Devices[1].GPU = []string{"a"} }, wholeNode},

		{"after a failure of dcm", dra(sequence.Waiting), func(s *sequence.Input) {
			s.Node.Last = &sequence.Last{Target: target, State: sequence.Failure, Outcome: &sequence.Outcome{Whole: true}}
		}, "patch draining cordon taint in-progress PartitionRetrying"},

		{"devices without taints", dra(sequence.Sparing), func(s *sequence.Input) { s.Taints.Devices = nil }, "sequence.TaintDevices {Devices:[g0]}"},
		{"pods", dra(sequence.Sparing), func(*sequence.Input) {}, "evict on-n1/g0"},
		{"a new pod with any GPU", dra(sequence.Sparing), func(s *sequence.Input) {
			s.Pods.Work = []sequence.Pod{{Namespace: "d", Name: "any", UID: "x", Owner: "d/rs"}, s.Pods.Work[1]}
		}, "evict any"},
		{"pods on other GPUs only", dra(sequence.Sparing), func(s *sequence.Input) { s.Pods.Work = s.Pods.Work[1:] }, "patch draining cordon taint in-progress"},
		{"the plan concerns another GPU", dra(sequence.Sparing), func(s *sequence.Input) { s.Plan.GPUs = []string{"a", "b"} }, "patch "},
		{"another label", dra(sequence.Sparing), func(s *sequence.Input) { s.Node.Profile = "near" }, "patch "},
		{"cordoned by an administrator, another label", dra(sequence.Sparing), func(s *sequence.Input) { s.Node.Profile, s.Node.Cordoned = "near", true }, "patch cordon "},
		{"timed out", dra(sequence.Sparing), func(s *sequence.Input) { s.Times.Drain = time.Second }, "patch failure last=failure PartitionFailure"},
		{"dcm does not answer", dra(sequence.Sparing), func(s *sequence.Input) { s.Host.Down = "no" }, "sequence.Wait {For:5s}"},
		{"the clock was set back", dra(sequence.Sparing), func(s *sequence.Input) { s.Node.Op.Since = now.Add(time.Hour) }, "patch sparing "},

		{"drained", dra(sequence.Draining), func(s *sequence.Input) { s.Pods.Work = s.Pods.Work[1:] }, "patch applying cordon taint in-progress"},
		{"a late pod", dra(sequence.Draining), func(*sequence.Input) {}, "evict on-n1/g0"},
		{"drained, but the plan concerns another GPU", dra(sequence.Draining), func(s *sequence.Input) { s.Plan.GPUs = nil }, "patch "},
		{"applying", dra(sequence.Applying), func(*sequence.Input) {}, "sequence.Use {Target:{Profile:small Hash:h}}"},
		{"applying, but the plan concerns another GPU", dra(sequence.Applying), func(s *sequence.Input) { s.Plan.GPUs = nil },
			"patch refreshing cordon in-progress because the change concerns other GPUs than those that were drained"},
		{"applying, another label", dra(sequence.Applying), func(s *sequence.Input) { s.Node.Profile = "near" },
			"patch refreshing cordon in-progress because another profile was selected before the change: near"},
		{"refreshing, another label", dra(sequence.Refreshing), func(s *sequence.Input) {
			s.Node.Profile, s.Pods.Slices = "near", map[string]int{"spx_nps1": 8}
		}, "patch success last=success SuccessfullyPartitioned"},

		{"taints of an earlier operation", idle(), func(s *sequence.Input) { s.Taints = &sequence.DeviceTaints{Devices: []string{"g0"}} }, "sequence.UntaintDevices {Devices:[g0]}"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			tt.change(&tt.from)
			step := sequence.Next(tt.from)
			if got := summary(step.Act); got != tt.want {
				t.Errorf("next is %q, want %q (%+v)", got, tt.want, step.Condition)
			}
		})
	}
	failed := dra(sequence.Applying)
	failed.Used = &sequence.Used{Target: target, Failed: &sequence.Outcome{Message: "busy", Retry: true}, Undone: true}
	if op := sequence.Next(failed).Act.(sequence.Patch).Op; op.Outcome == nil || !op.Outcome.Whole || !op.Outcome.Retry {
		t.Errorf("after a failure of dcm: %+v", op.Outcome)
	}
	patch := sequence.Next(dra(sequence.Waiting)).Act.(sequence.Patch)
	if !slices.Equal(patch.Op.Devices, []string{"g0"}) || !slices.Equal(patch.Op.GPUs, []string{"a", "uuid-a"}) {
		t.Errorf("the operation has %q of %q", patch.Op.Devices, patch.Op.GPUs)
	}
}
