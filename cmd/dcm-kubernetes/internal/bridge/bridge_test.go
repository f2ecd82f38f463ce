package bridge_test

import (
	"context"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"dcm/cmd/dcm-kubernetes/internal/agent"
	"dcm/cmd/dcm-kubernetes/internal/cluster"
	"dcm/cmd/dcm-kubernetes/internal/standin"
	"dcm/cmd/dcm-kubernetes/internal/vendor"
)

func TestLabel_AppliesProfile(t *testing.T) {
	w := newWorld(t, "n1")
	w.budget(1)
	w.start("n1")
	w.label("n1", "small")
	w.until("success", func() bool { return w.state("n1") == "success" && w.held() == 0 })
	if wrong := w.atRest("n1"); wrong != nil {
		t.Error(wrong)
	}
	if w.api.Get(pods+"job-n1") != nil {
		t.Error("the pod with a GPU was not evicted")
	}
	if n := w.dcm["n1"].Partitions(); n != 64 {
		t.Errorf("there are %d partitions", n)
	}
	if w.count("POST "+events) != 2 {
		t.Errorf("events: %q", w.api.Requests())
	}
	w.until("the condition", func() bool { return strings.HasPrefix(w.condition("n1"), "True Applied: ") })
}

func TestNoChange_NoDrain(t *testing.T) {
	w := newWorld(t, "n1")
	w.budget(1)
	w.start("n1")
	w.label("n1", "whole")
	w.until("success", func() bool { return w.state("n1") == "success" })
	if w.api.Get(pods+"job-n1") == nil || w.count("PUT "+leases) > 0 {
		t.Errorf("requests were %q", w.api.Requests())
	}
}

func TestIdleNode_NoRequests(t *testing.T) {
	w := newWorld(t, "n1")
	w.budget(1)
	w.start("n1")
	w.label("n1", "whole")
	w.until("the condition", func() bool { return strings.HasPrefix(w.condition("n1"), "True") })
	before := len(w.api.Requests())
	for i := range 20 {
		w.api.Do(func(tree standin.Tree) {
			o := tree.Get(nodes + "n1")
			standin.Sub(o, "metadata", "labels")["other"] = fmt.Sprint(i)
			tree.Put(nodes+"n1", o)
		})
	}
	// The requests of this failure come after all earlier ones.
	w.label("n1", "none")
	w.until("failure", func() bool { return w.state("n1") == "failure" })
	asked := w.api.Requests()[before:]
	if len(asked) > 12 {
		t.Errorf("%d requests: %q", len(asked), asked)
	}
}

func TestUnusableConfig_Condition(t *testing.T) {
	tests := map[string]struct{ config, profile, want string }{
		"no profile": {text, "tiny", "False NonExistentProfile: profile tiny: not defined for these GPUs; accepted: near, small, whole"},
		"no JSON":    {"{", "small", "False InvalidJSONInConfigMap: config.json of the ConfigMap is not JSON: at byte 1: unexpected end of JSON input"},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, "n1")
			w.budget(1)
			w.config(tt.config)
			w.label("n1", tt.profile)
			w.start("n1")
			w.until("failure", func() bool { return w.state("n1") == "failure" && w.condition("n1") == tt.want })
			w.config(text)
			w.label("n1", "small")
			w.until("success", func() bool { return w.state("n1") == "success" })
		})
	}
}

func TestDisruptionBudget_Named(t *testing.T) {
	w := newWorld(t, "n1")
	w.budget(1)
	w.api.Evict = func(string) (int, string) { return 429, standin.Budget }
	w.start("n1")
	w.label("n1", "small")
	w.until("the reason", func() bool {
		return strings.Contains(w.condition("n1"), "default/job-n1 (its disruption budget forbids it for now)")
	})
}

func TestDisruptionBudget_DrainTimesOut(t *testing.T) {
	w := newWorld(t, "n1")
	w.budget(1)
	w.times.Drain = 50 * time.Millisecond
	w.api.Evict = func(string) (int, string) { return 429, standin.Budget }
	w.start("n1")
	w.label("n1", "small")
	w.until("failure", func() bool {
		return w.state("n1") == "failure" && w.held() == 0 && strings.Contains(w.condition("n1"), "within 50ms: default/job-n1")
	})
	if wrong := w.atRest("n1"); wrong != nil {
		t.Error(wrong)
	}
	if w.dcm["n1"].Uses() != 0 {
		t.Error("the GPUs were changed")
	}
}

// Without its claim, a pod with a GPU would look like one without.
func TestOldServer_Condition(t *testing.T) {
	w := newWorld(t, "n1")
	w.budget(1)
	w.api.Old = true
	w.api.Do(func(tree standin.Tree) {
		o := tree.Get(pods + "web-n1")
		standin.Sub(o, "spec")["resourceClaims"] = []any{standin.Object{"name": "c", "resourceClaimName": "gpu"}}
		tree.Put(pods+"web-n1", o)
	})
	w.start("n1")
	w.label("n1", "small")
	w.until("the reason", func() bool {
		return strings.HasPrefix(w.condition("n1"), "False UnsupportedVersion: ") && strings.HasSuffix(w.condition("n1"), "need Kubernetes 1.34 or later")
	})
	if w.cordoned("n1") {
		t.Error("the node was drained")
	}
}

func TestRival_NoDrain(t *testing.T) {
	w := newWorld(t, "n1")
	w.budget(1)
	w.api.Put(pods+"theirs", standin.Object{"metadata": standin.Object{"namespace": "default", "name": "theirs", "uid": "theirs"},
		"spec": standin.Object{"nodeName": "n1", "containers": []any{standin.Object{"name": "c", "image": "rocm/device-config-manager:v1.5"}}}})
	w.start("n1")
	w.label("n1", "small")
	w.until("failure", func() bool {
		return w.state("n1") == "failure" && strings.Contains(w.condition("n1"), "AMD's Device Config Manager also partitions the GPUs of this node")
	})
	if w.count("PUT "+leases) > 0 {
		t.Errorf("requests: %q", w.api.Requests())
	}
}

func TestKMM_DriverNotReloaded(t *testing.T) {
	w := newWorld(t, "n1")
	w.budget(1)
	w.api.Do(func(tree standin.Tree) {
		o := tree.Get(nodes + "n1")
		standin.Sub(o, "metadata", "labels")["kmm.node.kubernetes.io/kube-amd-gpu.default.ready"] = ""
		tree.Put(nodes+"n1", o)
	})
	w.start("n1")
	w.label("n1", "near")
	w.until("failure", func() bool {
		return w.state("n1") == "failure" && strings.Contains(w.condition("n1"), "Kernel Module Management")
	})
	w.label("n1", "small")
	w.until("success", func() bool { return w.state("n1") == "success" })
}

func TestFailedRun_UndoneOrNot(t *testing.T) {
	for name, undone := range map[string]bool{"undone": true, "unknown": false} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, "n1")
			w.budget(1)
			w.dcm["n1"].Fail = func(string) *agent.Refusal {
				return &agent.Refusal{Name: agent.Failed, Reason: "the driver says no", Hint: "look at dmesg", Undone: undone}
			}
			w.start("n1")
			w.label("n1", "small")
			w.until("the reason", func() bool {
				return strings.Contains(w.condition("n1"), "the driver says no; look at dmesg") && (w.state("n1") == "failure" && w.held() == 0 || w.phase("n1") == "applying")
			})
			w.until("the state label and the events", func() bool {
				return w.stateLabel("n1") == "failure" && w.count("POST "+events) == 2
			})
			if undone == w.cordoned("n1") {
				t.Errorf("cordoned: %v", w.cordoned("n1"))
			}
		})
	}
}

// A host's clock can be set back, for example by chrony at boot if the hardware clock has local time.
// Accounts are ordered by their connection, not by their times.
func TestClockSetBack_AgentContinues(t *testing.T) {
	w := newWorld(t, "n1")
	w.budget(1)
	w.start("n1")
	w.label("n1", "small")
	w.until("success", func() bool { return w.state("n1") == "success" })
	w.dcm["n1"].SetClockBack(time.Hour)
	w.label("n1", "whole")
	w.until("success of the other profile", func() bool {
		return w.state("n1") == "success" && strings.HasSuffix(w.condition("n1"), "the GPUs match whole")
	})
	if n := w.dcm["n1"].Uses(); n != 2 {
		t.Errorf("%d changes, want 2", n)
	}
}

// Two agents may run on a node for a moment. The slower one decided to apply the profile, and the
// faster one has applied it and ended the operation meanwhile.
func TestUse_OutdatedDecisionDropped(t *testing.T) {
	w := newWorld(t, "n1")
	w.budget(1)
	var ended atomic.Bool
	w.api.Meet = func(request string, after bool) bool {
		if after && request == "PATCH "+nodes+"n1/status" && strings.HasSuffix(w.condition("n1"), "dcm changes the GPUs to small") && !ended.Swap(true) {
			w.api.Do(func(tree standin.Tree) {
				o := tree.Get(nodes + "n1")
				delete(standin.Sub(o, "metadata", "annotations"), cluster.Operation)
				delete(standin.Sub(o, "metadata", "labels"), vendor.AMD.Profile)
				tree.Put(nodes+"n1", o)
			})
		}
		return false
	}
	w.start("n1")
	w.label("n1", "small")
	w.until("the condition", func() bool { return strings.HasPrefix(w.condition("n1"), "Unknown NoProfile: ") && w.held() == 0 })
	if n := w.dcm["n1"].Uses(); n != 0 || !ended.Load() {
		t.Errorf("%d changes, want none", n)
	}
}

// The heartbeat of the condition distinguishes an idle agent from one that has ended.
func TestHeartbeat_UnchangedCondition(t *testing.T) {
	w := newWorld(t, "n1")
	w.budget(1)
	w.times.Heartbeat = 10 * time.Millisecond
	w.start("n1")
	w.label("n1", "whole")
	w.until("the condition", func() bool { return strings.HasPrefix(w.condition("n1"), "True") })
	before := w.count("PATCH " + nodes + "n1/status")
	w.until("heartbeats", func() bool { return w.count("PATCH "+nodes+"n1/status") >= before+3 })
	if got := w.condition("n1"); got != "True Applied: the GPUs match whole" {
		t.Errorf("the condition is %q", got)
	}
}

// If the daemon does not answer at the start of the change, nothing was tried and nothing failed.
func TestUse_DaemonDownIsNoFailure(t *testing.T) {
	w := newWorld(t, "n1")
	w.budget(1)
	w.dcm["n1"].MissUses(1)
	w.start("n1")
	w.label("n1", "small")
	w.until("success", func() bool { return w.state("n1") == "success" && w.held() == 0 })
	if n := w.count("POST " + events); n != 2 {
		t.Errorf("%d events, want start and end: %q", n, w.api.Requests())
	}
}

// The label is removed during the change, which succeeds.
func TestLabelRemovedWhileApplying_ReportsResult(t *testing.T) {
	w := newWorld(t, "n1")
	w.budget(1)
	w.dcm["n1"].Run = func() {
		w.api.Do(func(tree standin.Tree) {
			o := tree.Get(nodes + "n1")
			delete(standin.Sub(o, "metadata", "labels"), vendor.AMD.Profile)
			tree.Put(nodes+"n1", o)
		})
	}
	w.start("n1")
	w.label("n1", "small")
	w.until("success", func() bool { return w.state("n1") == "success" && w.held() == 0 })
	if wrong := w.atRest("n1"); wrong != nil || w.dcm["n1"].Partitions() != 64 {
		t.Errorf("%q, %d partitions", wrong, w.dcm["n1"].Partitions())
	}
	w.until("the condition", func() bool { return strings.HasPrefix(w.condition("n1"), "Unknown NoProfile: ") })
}

func TestConfigMap_PolledWithoutInotify(t *testing.T) {
	w := newWorld(t, "n1")
	w.budget(1)
	w.blind = true
	w.config("{}")
	w.start("n1")
	w.label("n1", "small")
	w.until("failure", func() bool { return w.state("n1") == "failure" })
	w.config(text)
	w.until("success", func() bool { return w.state("n1") == "success" })
}

// The administrator has to decide, since the operation is unknown.
func TestUnreadableAnnotation_Condition(t *testing.T) {
	w := newWorld(t, "n1")
	w.budget(1)
	w.api.Do(func(tree standin.Tree) {
		o := tree.Get(nodes + "n1")
		standin.Sub(o, "metadata", "annotations")[cluster.Operation] = "{"
		tree.Put(nodes+"n1", o)
	})
	w.label("n1", "small")
	w.start("n1")
	w.until("the reason", func() bool {
		return strings.HasPrefix(w.condition("n1"), "False UnknownOperation: node n1: annotation deviceconfig.org/operation: not valid")
	})
	w.api.Do(func(tree standin.Tree) {
		o := tree.Get(nodes + "n1")
		delete(standin.Sub(o, "metadata", "annotations"), cluster.Operation)
		tree.Put(nodes+"n1", o)
	})
	w.until("success", func() bool { return w.state("n1") == "success" })
}

// A busy server replies 429, too, which is not the reply of a disruption budget.
func TestBusyServer_IsNoDisruptionBudget(t *testing.T) {
	w := newWorld(t, "n1")
	w.budget(1)
	var n atomic.Int32
	w.api.Evict = func(string) (int, string) {
		if n.Add(1) == 1 {
			return 429, "too many requests"
		}
		return 0, ""
	}
	w.start("n1")
	w.label("n1", "small")
	w.until("the reason", func() bool {
		return strings.Contains(w.condition("n1"), "default/job-n1 (the API server asks for a pause)")
	})
}

// A node that leaves the cluster and returns is a new object with the same name.
func TestRecreatedNode_GetsCondition(t *testing.T) {
	w := newWorld(t, "n1")
	w.budget(1)
	w.start("n1")
	w.label("n1", "whole")
	w.until("the condition", func() bool { return strings.HasPrefix(w.condition("n1"), "True") })
	w.api.Do(func(tree standin.Tree) {
		o := tree.Get(nodes + "n1")
		standin.Sub(o, "metadata")["uid"] = "another"
		delete(standin.Sub(o, "status"), "conditions")
		tree.Put(nodes+"n1", o)
	})
	w.until("the condition again", func() bool { return strings.HasPrefix(w.condition("n1"), "True") })
}

// An update restarts the daemon. Calls that fail meanwhile say nothing about the profile.
func TestDaemonDown_Waits(t *testing.T) {
	w := newWorld(t, "n1")
	w.budget(1)
	w.dcm["n1"].Away(true)
	w.start("n1")
	w.label("n1", "small")
	w.until("the reason", func() bool { return strings.HasPrefix(w.condition("n1"), "False HostUnreachable: ") })
	w.dcm["n1"].Away(false)
	w.until("success", func() bool { return w.state("n1") == "success" })
}

// The first account of a restarted daemon has no GPUs, and a device plugin may offer none at that time.
func TestRestartedDaemon_NoEarlySuccess(t *testing.T) {
	w := newWorld(t, "n1")
	w.budget(1)
	offer := func(node standin.Object, n string) { standin.Sub(node, "status", "allocatable")["amd.com/gpu"] = n }
	restarted := false
	w.api.After = func(tree standin.Tree, node standin.Object) {
		w.follow(tree, node)
		if !restarted && strings.Contains(fmt.Sprint(standin.Sub(node, "metadata", "annotations")[cluster.Operation]), `"refreshing"`) {
			restarted = true
			w.dcm["n1"].Starting(true)
			offer(tree.Get(nodes+"n1"), "0")
		}
	}
	w.start("n1")
	w.label("n1", "small")
	w.until("the reason", func() bool {
		return strings.HasSuffix(w.condition("n1"), "waits for dcm to report the GPUs after its start or run")
	})
	w.api.Do(func(tree standin.Tree) {
		o := tree.Get(nodes + "n1")
		offer(o, "64")
		tree.Put(nodes+"n1", o)
	})
	w.dcm["n1"].Starting(false)
	w.until("success", func() bool { return w.state("n1") == "success" && w.atRest("n1") == nil })
}

// The agent is killed at each request, before and after its effect. The next agent completes the
// change.
func TestKillAtAnyRequest_Completes(t *testing.T) {
	for of, prepare := range map[string]func(*testing.T) (*world, string){
		"amd":    func(t *testing.T) (*world, string) { return newWorld(t, "n1"), "small" },
		"nvidia": func(t *testing.T) (*world, string) { w := newWorld(t); w.addH100("n1"); return w, "all-balanced" },
	} {
		last := false
		for at := 1; !last; at++ {
			for _, after := range []bool{false, true} {
				t.Run(fmt.Sprintf("%s %d %v", of, at, after), func(t *testing.T) {
					w, profile := prepare(t)
					last = !killed(w, profile, int32(at), after) || last
				})
			}
		}
	}
}

// killed has the agent killed at one of its requests. It reports false if there are not so many.
func killed(w *world, profile string, at int32, after bool) bool {
	t := w.t
	w.budget(1)
	labels := w.labels("n1")
	var n atomic.Int32
	dead, bury := context.WithCancel(t.Context())
	defer bury()
	cut := make(chan struct{})
	w.api.Meet = func(_ string, done bool) bool {
		if done == after && n.Add(1) == at {
			close(cut)
			<-dead.Done()
			return true
		}
		return false
	}
	w.label("n1", profile)
	stop := w.start("n1")
	reached := true
	select {
	case <-cut:
		stop()
		bury()
		w.start("n1")
	case <-settled(w):
		reached = false
	}
	<-settled(w)
	if wrong := w.atRest("n1"); wrong != nil {
		t.Error(wrong)
	}
	if w.dcm["n1"].Uses() != 1 {
		t.Errorf("the GPUs were changed %d times", w.dcm["n1"].Uses())
	}
	for label, value := range labels {
		if now := w.labels("n1")[label]; now != value {
			t.Errorf("label %s is %v, want %v as before", label, now, value)
		}
	}
	return reached
}

// settled returns a channel that is closed at the end of the change.
func settled(w *world) <-chan struct{} {
	done := make(chan struct{})
	go func() {
		defer close(done)
		for {
			changed := w.api.Changed()
			if w.state("n1") == "success" && w.held() == 0 && strings.HasPrefix(w.condition("n1"), "True") {
				return
			}
			select {
			case <-changed:
			case <-w.t.Context().Done():
				return
			}
		}
	}()
	return done
}
