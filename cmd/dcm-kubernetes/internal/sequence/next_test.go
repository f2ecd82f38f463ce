package sequence_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"dcm/cmd/dcm-kubernetes/internal/sequence"
)

var (
	now    = time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC)
	target = sequence.Target{Profile: "small", Hash: "h"}
)

// idle returns a node with a new label.
func idle() sequence.Input {
	return sequence.Input{
		Now: now, ID: "new",
		Times:  sequence.Times{Drain: 30 * time.Minute, Refresh: 10 * time.Minute, Retry: time.Hour, Look: 5 * time.Second, Budget: 15 * time.Second},
		Node:   sequence.Node{Name: "n1", Profile: "small", Allocatable: map[string]int64{"amd.com/gpu": 8}},
		Config: sequence.Config{Text: "{}", Hash: "h"},
		Host:   sequence.Host{Effective: "whole", InSync: true, Partitions: map[string]int{"spx_nps1": 8}},
		Plan:   &sequence.Plan{Changes: true}, Pods: &sequence.Pods{},
		Leases: &sequence.Leases{All: []sequence.Lease{{Name: "l1"}}},
	}
}

// at returns a node in a phase that began some time ago.
func at(phase sequence.Phase, ago time.Duration) sequence.Input {
	s := idle()
	s.Node.Op = &sequence.Operation{ID: "op", Target: target, Phase: phase, Since: now.Add(-ago), Operands: []string{"d/plugin"}, Counted: true}
	if phase != sequence.Waiting {
		s.Node.Cordoned, s.Node.Tainted = true, phase != sequence.Refreshing
		s.Leases.All[0].Holder = "n1/op"
	}
	return s
}

func work(change func(*sequence.Pod)) *sequence.Pods {
	p := sequence.Pod{Namespace: "d", Name: "job", UID: "u", Owner: "d/rs"}
	change(&p)
	return &sequence.Pods{Work: []sequence.Pod{p}}
}

func operand(change func(*sequence.Pod)) *sequence.Pods {
	p := sequence.Pod{Namespace: "d", Name: "plugin-1", UID: "u", Owner: "d/plugin", Ready: true}
	change(&p)
	return &sequence.Pods{Operands: []sequence.Pod{p}, Plugin: true}
}

// sliced replaces the device plugin by a DRA driver that publishes n devices.
func sliced(p *sequence.Pods, mode string, n int) *sequence.Pods {
	p.Plugin, p.Driver, p.Slices = false, true, map[string]int{mode: n}
	return p
}

// summary returns an act in one line.
func summary(act sequence.Act) string {
	switch act := act.(type) {
	case sequence.Patch:
		words := []string{"patch"}
		if act.Op != nil {
			words = append(words, string(act.Op.Phase))
		}
		if act.Cordon {
			words = append(words, "cordon")
		}
		if act.Taint {
			words = append(words, "taint")
		}
		words = append(words, act.State)
		if act.Last != nil {
			words = append(words, "last="+act.Last.State)
		}
		if act.Event != nil {
			words = append(words, act.Event.Reason)
		}
		if act.Op != nil && act.Op.Phase == sequence.Refreshing && act.Op.Outcome != nil {
			words = append(words, "because", act.Op.Outcome.Message)
		}
		return strings.Join(words, " ")
	case sequence.Evict:
		return "evict " + act.Pods[0].Name
	case sequence.Delete:
		return "delete " + act.Pods[0].Name
	}
	return fmt.Sprintf("%T %+v", act, act)
}

func TestNext(t *testing.T) {
	plain := func(*sequence.Pod) {}
	last := func(state string, ago time.Duration, why *sequence.Outcome) *sequence.Last {
		return &sequence.Last{Target: target, State: state, At: now.Add(-ago), Outcome: why}
	}
	tests := []struct {
		name   string
		from   sequence.Input
		change func(*sequence.Input)
		want   string
	}{
		{"no label", idle(), func(s *sequence.Input) { s.Node.Profile = "" }, "sequence.Rest {}"},
		{"dcm does not answer", idle(), func(s *sequence.Input) { s.Host.Down = "no socket" }, "sequence.Wait {For:5s}"},
		{"a run is in progress", idle(), func(s *sequence.Input) { s.Host.Running = true }, "sequence.Wait {For:5s}"},
		{"a label", idle(), func(*sequence.Input) {}, "patch waiting "},
		{"no change needed", idle(), func(s *sequence.Input) { s.Plan.Changes = false }, "sequence.Use {Target:{Profile:small Hash:h}}"},
		{"applied without a change", idle(), func(s *sequence.Input) { s.Plan.Changes, s.Used = false, &sequence.Used{Target: target} }, "patch success last=success RequestedPartitionConfigAlreadyExists"},
		{"done", idle(), func(s *sequence.Input) { s.Node.Last, s.Host.Effective = last("success", 0, nil), "small" }, "sequence.Rest {}"},
		{"another profile selected on the host", idle(), func(s *sequence.Input) { s.Node.Last = last("success", 0, nil) }, "patch waiting "},
		{"failed permanently", idle(), func(s *sequence.Input) {
			s.Node.Last = last("failure", 0, &sequence.Outcome{Reason: "PartitionFailure", Message: "no"})
		}, "sequence.Rest {}"},
		{"failed, retry later", idle(), func(s *sequence.Input) {
			s.Node.Last = last("failure", 20*time.Minute, &sequence.Outcome{Reason: "PartitionFailure", Message: "no", Retry: true})
		}, "sequence.Wait {For:40m0s}"},
		{"failed, and the clock was set back", idle(), func(s *sequence.Input) {
			s.Node.Last = last("failure", -2*time.Hour, &sequence.Outcome{Reason: "PartitionFailure", Message: "no", Retry: true})
		}, "patch waiting "},
		{"failed long ago", idle(), func(s *sequence.Input) {
			s.Node.Last = last("failure", 2*time.Hour, &sequence.Outcome{Reason: "PartitionFailure", Message: "no", Retry: true})
		}, "patch waiting "},
		{"a Lease of a finished operation", idle(), func(s *sequence.Input) { s.Leases.All[0].Holder = "n1/old" }, "sequence.Free {Leases:[l1]}"},
		{"no budget", idle(), func(s *sequence.Input) { s.Leases.All = nil }, "patch failure last=failure PartitionFailure"},
		{"no budget for the node's pool", idle(), func(s *sequence.Input) { s.Node.Pool = "a" }, "patch failure last=failure PartitionFailure"},
		{"a budget of another pool only", idle(), func(s *sequence.Input) { s.Leases.All[0].Pool = "a" }, "patch failure last=failure PartitionFailure"},
		{"no ConfigMap", idle(), func(s *sequence.Input) {
			s.Config = sequence.Config{Problem: &sequence.Outcome{Reason: sequence.NoConfigMap, Message: "no"}}
		}, "patch failure last=failure ConfigMapNotPresent"},
		{"still no ConfigMap", idle(), func(s *sequence.Input) {
			s.Config = sequence.Config{Problem: &sequence.Outcome{Reason: sequence.NoConfigMap, Message: "no"}}
			s.Node.Last = &sequence.Last{Target: sequence.Target{Profile: "small"}, State: "failure", Outcome: &sequence.Outcome{Reason: sequence.NoConfigMap, Message: "no"}}
		}, "sequence.Rest {}"},
		{"unknown phase", at("tomorrow", 0), func(*sequence.Input) {}, "sequence.Rest {}"},

		{"a free lease", at(sequence.Waiting, 0), func(*sequence.Input) {}, "sequence.Take {Lease:l1 Holder:n1/op}"},
		{"no free lease, pods not read", at(sequence.Waiting, 0), func(s *sequence.Input) { s.Leases.All[0].Holder, s.Pods = "n2/x", nil }, "sequence.Wait {For:15s}"},
		{"a free lease of the node's pool", at(sequence.Waiting, 0), func(s *sequence.Input) {
			s.Node.Pool, s.Leases.All = "a", []sequence.Lease{{Name: "l1"}, {Name: "l2", Pool: "b"}, {Name: "l3", Pool: "a"}}
		}, "sequence.Take {Lease:l3 Holder:n1/op}"},
		{"free leases of other pools only", at(sequence.Waiting, 0), func(s *sequence.Input) {
			s.Node.Pool, s.Leases.All = "a", []sequence.Lease{{Name: "l1"}, {Name: "l2", Pool: "b"}, {Name: "l3", Pool: "a", Holder: "n2/x"}}
		}, "sequence.Wait {For:15s}"},
		{"a lease of the pool before", at(sequence.Waiting, 0), func(s *sequence.Input) {
			s.Node.Pool, s.Leases.All = "a", []sequence.Lease{{Name: "l1", Holder: "n1/op"}, {Name: "l2", Pool: "a"}}
		}, "patch draining cordon taint in-progress PartitionInProgress"},
		{"no free lease", at(sequence.Waiting, 0), func(s *sequence.Input) { s.Leases.All[0].Holder = "n2/x" }, "sequence.Wait {For:15s}"},
		{"a stale lease", at(sequence.Waiting, 0), func(s *sequence.Input) { s.Leases.All[0] = sequence.Lease{Name: "l1", Holder: "n2/x", Stale: true} }, "sequence.Take {Lease:l1 Holder:n1/op}"},
		{"a lease", at(sequence.Waiting, 0), func(s *sequence.Input) { s.Leases.All[0].Holder = "n1/op" }, "patch draining cordon taint in-progress PartitionInProgress"},
		{"a lease, again", at(sequence.Waiting, 0), func(s *sequence.Input) {
			s.Leases.All[0].Holder, s.Node.Last = "n1/op", last("failure", 2*time.Hour, &sequence.Outcome{Reason: "PartitionFailure", Message: "no"})
		}, "patch draining cordon taint in-progress PartitionRetrying"},
		{"another label while waiting", at(sequence.Waiting, 0), func(s *sequence.Input) { s.Node.Profile = "near" }, "patch "},

		{"pods", at(sequence.Draining, time.Minute), func(s *sequence.Input) { s.Pods = work(plain) }, "evict job"},
		{"pods terminate", at(sequence.Draining, time.Minute), func(s *sequence.Input) { s.Pods = work(func(p *sequence.Pod) { p.Leaving = true }) }, "sequence.Wait {For:5s}"},
		{"eviction refused a moment ago", at(sequence.Draining, time.Minute), func(s *sequence.Input) {
			s.Pods = work(func(p *sequence.Pod) { p.NotBefore = now.Add(time.Second) })
		}, "sequence.Wait {For:1s}"},
		{"a pod without a controller", at(sequence.Draining, time.Minute), func(s *sequence.Input) { s.Pods = work(func(p *sequence.Pod) { p.Owner = "" }) }, "sequence.Wait {For:5s}"},
		{"no limit for the drain", at(sequence.Draining, time.Hour), func(s *sequence.Input) { s.Pods, s.Times.Drain = work(plain), 0 }, "evict job"},
		{"a longer limit for the node", at(sequence.Draining, time.Hour), func(s *sequence.Input) { s.Pods, s.Node.Drain = work(plain), new(8*time.Hour) }, "evict job"},
		{"the limit of the node is reached", at(sequence.Draining, time.Minute), func(s *sequence.Input) { s.Pods, s.Node.Drain = work(plain), new(time.Minute) }, "patch failure last=failure PartitionFailure"},
		{"drain timed out", at(sequence.Draining, time.Hour), func(s *sequence.Input) { s.Pods = work(plain) }, "patch failure last=failure PartitionFailure"},
		{"drain timed out, cordoned before", at(sequence.Draining, time.Hour), func(s *sequence.Input) {
			s.Pods, s.Node.Op.WasCordoned = work(plain), true
		}, "patch cordon failure last=failure PartitionFailure"},
		{"operands", at(sequence.Draining, time.Minute), func(s *sequence.Input) { s.Pods = operand(plain) }, "delete plugin-1"},
		{"an operand that tolerates the taint", at(sequence.Draining, time.Minute), func(s *sequence.Input) { s.Pods = operand(func(p *sequence.Pod) { p.Stays = true }) }, "patch applying cordon taint in-progress"},
		{"uncordoned by an administrator", at(sequence.Draining, time.Minute), func(s *sequence.Input) { s.Node.Cordoned = false }, "patch draining cordon taint in-progress"},
		{"another label while draining", at(sequence.Draining, time.Minute), func(s *sequence.Input) { s.Node.Profile = "near" }, "patch "},
		{"dcm does not answer while draining", at(sequence.Draining, time.Minute), func(s *sequence.Input) { s.Host.Down = "no" }, "sequence.Wait {For:5s}"},
		{"dcm does not answer for an hour", at(sequence.Draining, time.Hour), func(s *sequence.Input) { s.Host.Down = "no" }, "patch failure last=failure PartitionFailure"},
		{"drained", at(sequence.Draining, time.Minute), func(*sequence.Input) {}, "patch applying cordon taint in-progress"},

		{"applying", at(sequence.Applying, 0), func(*sequence.Input) {}, "sequence.Use {Target:{Profile:small Hash:h}}"},
		{"applying, started by an earlier agent", at(sequence.Applying, 0), func(s *sequence.Input) { s.Host.Running = true }, "sequence.Wait {For:5s}"},
		{"applied", at(sequence.Applying, 0), func(s *sequence.Input) { s.Used = &sequence.Used{Target: target} }, "patch refreshing cordon in-progress"},
		{"failed, undone", at(sequence.Applying, 0), func(s *sequence.Input) {
			s.Used = &sequence.Used{Target: target, Failed: &sequence.Outcome{Reason: "PartitionFailure", Message: "no"}, Undone: true}
		}, "patch refreshing cordon in-progress because no"},
		{"failed, not undone", at(sequence.Applying, 0), func(s *sequence.Input) {
			s.Used = &sequence.Used{Target: target, Failed: &sequence.Outcome{Reason: "PartitionFailure", Message: "no"}}
		}, "patch applying cordon taint failure PartitionFailure"},
		{"label removed, applied", at(sequence.Applying, 0), func(s *sequence.Input) {
			s.Node.Profile, s.Used = "", &sequence.Used{Target: target}
		}, "patch refreshing cordon in-progress"},
		{"label removed, failed, undone", at(sequence.Applying, 0), func(s *sequence.Input) {
			s.Node.Profile, s.Used = "", &sequence.Used{Target: target, Failed: &sequence.Outcome{Reason: "PartitionFailure", Message: "no"}, Undone: true}
		}, "patch refreshing cordon in-progress because no"},
		{"label removed, failed, not undone", at(sequence.Applying, 0), func(s *sequence.Input) {
			s.Node.Profile, s.Used = "", &sequence.Used{Target: target, Failed: &sequence.Outcome{Reason: "PartitionFailure", Message: "no"}}
		}, "patch applying cordon taint failure PartitionFailure"},
		{"label removed, profile effective", at(sequence.Applying, 0), func(s *sequence.Input) {
			s.Node.Profile, s.Host.Effective, s.Plan.Changes = "", "small", false
		}, "patch refreshing cordon in-progress"},
		{"label removed, older profile of that name", at(sequence.Applying, 0), func(s *sequence.Input) {
			s.Node.Profile, s.Host.Effective = "", "small"
		}, "patch refreshing cordon in-progress because the label was removed before the change to small; the effective profile is small"},
		{"label removed before the change", at(sequence.Applying, 0), func(s *sequence.Input) { s.Node.Profile = "" },
			"patch refreshing cordon in-progress because the label was removed before the change to small; the effective profile is whole"},
		{"label removed, GPUs match no profile", at(sequence.Applying, 0), func(s *sequence.Input) { s.Node.Profile, s.Host.InSync = "", false },
			"sequence.Wait {For:5s}"},
		{"label removed, plan unknown", at(sequence.Applying, 0), func(s *sequence.Input) { s.Node.Profile, s.Plan = "", nil },
			"sequence.Wait {For:5s}"},
		{"ConfigMap removed, applied", at(sequence.Applying, 0), func(s *sequence.Input) {
			s.Config, s.Used = sequence.Config{Problem: &sequence.Outcome{Reason: sequence.NoConfigMap, Message: "gone"}}, &sequence.Used{Target: target}
		}, "patch refreshing cordon in-progress"},
		{"ConfigMap removed before the change", at(sequence.Applying, 0), func(s *sequence.Input) {
			s.Config, s.Plan = sequence.Config{Problem: &sequence.Outcome{Reason: sequence.NoConfigMap, Message: "gone"}}, nil
		}, "patch refreshing cordon in-progress because gone"},
		{"the clock was set back", at(sequence.Draining, -time.Hour), func(s *sequence.Input) { s.Pods = work(plain) }, "patch draining cordon taint"},
		{"failed, not undone, a while ago", at(sequence.Applying, time.Minute), func(s *sequence.Input) {
			s.Node.Op.Outcome = &sequence.Outcome{Reason: "PartitionFailure", Message: "no"}
		}, "sequence.Wait {For:59m0s}"},
		{"failed, and dcm retried by itself", at(sequence.Applying, time.Minute), func(s *sequence.Input) {
			s.Node.Op.Outcome, s.Host.Effective = &sequence.Outcome{Reason: "PartitionFailure", Message: "no"}, "small"
		}, "sequence.Use {Target:{Profile:small Hash:h}}"},
		{"another label after a failure", at(sequence.Applying, time.Minute), func(s *sequence.Input) {
			s.Node.Op.Outcome, s.Node.Profile = &sequence.Outcome{Reason: "PartitionFailure", Message: "no"}, "near"
		}, "patch applying cordon taint in-progress"},
		{"the profile was removed", at(sequence.Applying, 0), func(s *sequence.Input) { s.Plan.Refusal = &sequence.Outcome{Reason: "PartitionFailure", Message: "no"} }, "patch refreshing cordon in-progress because no"},

		{"no plugin yet", at(sequence.Refreshing, 0), func(*sequence.Input) {}, "sequence.Wait {For:5s}"},
		{"the plugin reports old counts", at(sequence.Refreshing, 0), func(s *sequence.Input) {
			s.Pods, s.Host.Partitions = operand(plain), map[string]int{"cpx_nps1": 64}
		}, "sequence.Wait {For:5s}"},
		{"a plugin that tolerated the taint", at(sequence.Refreshing, 0), func(s *sequence.Input) {
			s.Pods = operand(func(p *sequence.Pod) { p.Stays = true })
		}, "patch refreshing cordon in-progress"},
		{"such a plugin, listed", at(sequence.Refreshing, 0), func(s *sequence.Input) {
			s.Pods = operand(func(p *sequence.Pod) { p.Stays = true })
			s.Node.Op.Listed, s.Node.Op.Stale = true, []string{"u"}
		}, "delete plugin-1"},
		{"the plugin was restarted", at(sequence.Refreshing, 0), func(s *sequence.Input) {
			s.Pods = operand(func(p *sequence.Pod) { p.Stays, p.UID = true, "another" })
			s.Node.Op.Listed, s.Node.Op.Stale = true, []string{"u"}
		}, "patch success last=success SuccessfullyPartitioned"},
		{"one resource name", at(sequence.Refreshing, 0), func(s *sequence.Input) { s.Pods = operand(plain) }, "patch success last=success SuccessfullyPartitioned"},
		{"dcm was restarted and has not read the GPUs", at(sequence.Refreshing, 0), func(s *sequence.Input) {
			s.Pods, s.Node.Allocatable = operand(plain), map[string]int64{"amd.com/gpu": 0}
			s.Host.Unread, s.Host.Partitions = true, nil
		}, "sequence.Wait {For:5s}"},
		{"a run of dcm while refreshing", at(sequence.Refreshing, 0), func(s *sequence.Input) {
			s.Pods, s.Node.Allocatable = operand(plain), map[string]int64{"amd.com/gpu": 0}
			s.Host.Running, s.Host.Partitions = true, nil
		}, "sequence.Wait {For:5s}"},
		{"a resource name for each mode", at(sequence.Refreshing, 0), func(s *sequence.Input) {
			s.Pods, s.Host.Partitions = operand(plain), map[string]int{"cpx_nps1": 64, "spx_nps1": 4}
			s.Node.Allocatable = map[string]int64{"amd.com/cpx_nps1": 64, "amd.com/spx_nps1": 4, "amd.com/gpu": 0}
		}, "patch success last=success SuccessfullyPartitioned"},
		{"ResourceSlices outdated", at(sequence.Refreshing, 0), func(s *sequence.Input) {
			s.Pods, s.Host.Partitions = sliced(operand(plain), "spx_nps1", 8), map[string]int{"cpx_nps1": 64}
			s.Node.Op.Counted, s.Node.Allocatable = false, nil
		}, "sequence.Wait {For:5s}"},
		{"ResourceSlices missing", at(sequence.Refreshing, 0), func(s *sequence.Input) {
			s.Pods, s.Node.Op.Sliced, s.Pods.Plugin = operand(plain), true, false
			s.Node.Op.Counted, s.Node.Allocatable = false, nil
		}, "sequence.Wait {For:5s}"},
		{"ResourceSlices with another memory mode", at(sequence.Refreshing, 0), func(s *sequence.Input) {
			s.Pods, s.Host.Partitions = sliced(operand(plain), "cpx_nps1", 64), map[string]int{"cpx_nps4": 64}
			s.Node.Op.Counted, s.Node.Allocatable = false, nil
		}, "sequence.Wait {For:5s}"},
		{"ResourceSlices correct", at(sequence.Refreshing, 0), func(s *sequence.Input) {
			s.Pods, s.Host.Partitions = sliced(operand(plain), "cpx_nps4", 64), map[string]int{"cpx_nps4": 64, "spx_nps1": 0}
			s.Node.Op.Counted, s.Node.Allocatable = false, nil
		}, "patch success last=success SuccessfullyPartitioned"},
		{"ResourceSlices without a mode", at(sequence.Refreshing, 0), func(s *sequence.Input) {
			s.Pods, s.Host.Partitions = sliced(operand(plain), "", 8), map[string]int{"spx_nps1": 8}
			s.Node.Op.Counted, s.Node.Allocatable = false, nil
		}, "patch success last=success SuccessfullyPartitioned"},
		{"no device plugin", at(sequence.Refreshing, 0), func(s *sequence.Input) {
			s.Node.Op.Operands, s.Node.Op.Counted, s.Node.Allocatable = nil, false, nil
		}, "patch success last=success SuccessfullyPartitioned"},
		{"change undone", at(sequence.Refreshing, 0), func(s *sequence.Input) {
			s.Pods, s.Node.Op.Outcome = operand(plain), &sequence.Outcome{Reason: "PartitionFailure", Message: "no"}
		}, "patch failure last=failure PartitionFailure"},
		{"another label while refreshing", at(sequence.Refreshing, 0), func(s *sequence.Input) { s.Node.Profile = "near" }, "patch draining cordon taint in-progress"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			s := tt.from
			tt.change(&s)
			step := sequence.Next(s)
			if got := summary(step.Act); strings.Join(strings.Fields(got), " ") != strings.TrimSpace(tt.want) {
				t.Errorf("next is %q, want %q (%+v)", got, tt.want, step.Condition)
			}
			if step.Condition.Reason == "" || step.Condition.Message == "" {
				t.Errorf("condition without a reason or message: %+v", step.Condition)
			}
		})
	}
}

// Otherwise an operand that was broken before the change would keep the node cordoned.
func TestDraining_IgnoresUnreadyOperands(t *testing.T) {
	s := at(sequence.Waiting, 0)
	s.Leases.All[0].Holder = "n1/op"
	s.Pods = operand(func(*sequence.Pod) {})
	broken := s.Pods.Operands[0]
	broken.Name, broken.Owner, broken.Ready = "exporter-1", "d/exporter", false
	s.Pods.Operands = append(s.Pods.Operands, broken)
	got := sequence.Next(s).Act.(sequence.Patch).Op.Operands
	if len(got) != 1 || got[0] != "d/plugin" {
		t.Errorf("waits for %q", got)
	}
}

// The message has a hint for each kind of pod.
func TestDrainTimeout_Message(t *testing.T) {
	plain := func(*sequence.Pod) {}
	tests := map[string]struct {
		pods *sequence.Pods
		want string
	}{
		"pods": {work(plain), "pods that use GPUs did not leave within 30m0s: d/job. hint: delete them, or widen their disruption budgets; next try in 1h0m0s"},
		"pods and an operand": {&sequence.Pods{Work: work(plain).Work, Operands: operand(plain).Operands},
			"pods that use GPUs did not leave within 30m0s: d/job. hint: delete them, or widen their disruption budgets; next try in 1h0m0s"},
		"terminating": {work(func(p *sequence.Pod) { p.Leaving = true }),
			"pods that use GPUs did not leave within 30m0s: d/job (terminating). hint: check why they do not terminate; next try in 1h0m0s"},
		"an operand": {operand(func(p *sequence.Pod) { p.Leaving = true }),
			"pods that serve GPUs did not leave within 30m0s: d/plugin-1 (terminating). hint: check why they do not terminate; next try in 1h0m0s"},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			s := at(sequence.Draining, time.Hour)
			s.Pods = tt.pods
			if got := sequence.Next(s).Condition.Message; got != tt.want {
				t.Errorf("message is %q, want %q", got, tt.want)
			}
		})
	}
}

// A failed change that is not undone keeps the node cordoned and its Lease. Alerts on the state
// label and on Warning events must see it.
func TestFailureNotUndone_Visible(t *testing.T) {
	s := at(sequence.Applying, 0)
	s.Used = &sequence.Used{Target: target, Failed: &sequence.Outcome{Reason: "PartitionFailure", Message: "the driver refuses"}}
	first := sequence.Next(s).Act.(sequence.Patch)
	s.ID = "later"
	second := sequence.Next(s).Act.(sequence.Patch)
	for _, p := range []sequence.Patch{first, second} {
		if p.State != sequence.Failure || p.Event == nil || !p.Event.Warning || !strings.Contains(p.Event.Note, "the driver refuses") {
			t.Errorf("state %q, event %+v", p.State, p.Event)
		}
	}
	if first.Event.Key == second.Event.Key {
		t.Errorf("both attempts have the event %q: the API server drops the second", first.Event.Key)
	}
}

func TestWaitingForBudget_NamesHolders(t *testing.T) {
	s := at(sequence.Waiting, 0)
	s.Leases.All = []sequence.Lease{{Name: "l1", Holder: "n3/x"}, {Name: "l2", Holder: "n2/y"}}
	if got, want := sequence.Next(s).Condition.Message, "all 2 Leases of the budget are held (by n2, n3)"; !strings.Contains(got, want) {
		t.Errorf("message is %q, want %q in it", got, want)
	}
	s.Leases.All = nil
	for i := range 9 {
		s.Leases.All = append(s.Leases.All, sequence.Lease{Name: fmt.Sprint(i), Holder: fmt.Sprintf("m%d/x", i)})
	}
	if got, want := sequence.Next(s).Condition.Message, "by m0, m1, m2, m3, m4, 4 more"; !strings.Contains(got, want) {
		t.Errorf("message is %q, want %q in it", got, want)
	}
}

func TestPlanned(t *testing.T) {
	tests := map[string]struct {
		change func(*sequence.Input)
		want   string
	}{
		"label":                          {func(*sequence.Input) {}, "small"},
		"another label":                  {func(s *sequence.Input) { s.Node.Profile = "near" }, "near"},
		"label removed":                  {func(s *sequence.Input) { s.Node.Profile = "" }, "small"},
		"label removed, other ConfigMap": {func(s *sequence.Input) { s.Node.Profile, s.Config.Hash = "", "i" }, ""},
		"label removed while draining":   {func(s *sequence.Input) { s.Node.Profile, s.Node.Op.Phase = "", sequence.Draining }, ""},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			s := at(sequence.Applying, 0)
			tt.change(&s)
			if got, ok := s.Planned(); got.Profile != tt.want || ok != (tt.want != "") || sequence.Wants(s).Plan != ok {
				t.Errorf("planned is %q, %v, want %q; wants %+v", got.Profile, ok, tt.want, sequence.Wants(s))
			}
		})
	}
}

func TestWants(t *testing.T) {
	tests := map[string]struct {
		from sequence.Input
		want sequence.Wanted
	}{
		"a label":    {idle(), sequence.Wanted{Plan: true, Pods: true, Leases: true}},
		"waiting":    {at(sequence.Waiting, 0), sequence.Wanted{Plan: true, Leases: true}},
		"draining":   {at(sequence.Draining, 0), sequence.Wanted{Plan: true, Pods: true}},
		"applying":   {at(sequence.Applying, 0), sequence.Wanted{Plan: true}},
		"refreshing": {at(sequence.Refreshing, 0), sequence.Wanted{Pods: true}},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			if got := sequence.Wants(tt.from); got != tt.want {
				t.Errorf("wants %+v, want %+v", got, tt.want)
			}
		})
	}
}
