package real_test

import (
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	client "dcm/cmd/dcm-kubernetes/internal/agent"
	"dcm/cmd/dcm-kubernetes/internal/cluster"
	"dcm/cmd/dcm-kubernetes/internal/sequence"
	"dcm/cmd/dcm-kubernetes/internal/vendor"
)

// TestReports checks what the labels, the condition and the events report when a change
// does not end in the usual way.
func TestReports(t *testing.T) {
	w := newWorld(t)
	w.plugin()
	both := []string{"n1", "n2"}
	for _, name := range both {
		w.add(name)
	}
	w.play()
	w.until("the plugin", both, func(o object) bool { return sub(o, "status", "allocatable")["amd.com/gpu"] == "8" })
	w.budget(1)
	n1 := &reporter{world: w, dcm: played(w, "n1")}
	program := w.program()
	n1.agent = w.agent(program, "n1", w.socket("n1"), "-retry=5s")
	w.agent(program, "n2", w.socket("n2"))

	t.Run("label removed during the change", n1.labelRemoved)
	t.Run("label removed, agent killed", n1.labelRemovedAndKilled)
	t.Run("failed change not undone", n1.notUndone)
	t.Run("clock set back", n1.clockSetBack)
}

// reporter is a node whose dcm the test can stop during a change, or let fail.
type reporter struct {
	*world
	agent *agent
	dcm   *playedDCM
}

// playedDCM controls the simulated dcm of a node.
type playedDCM struct {
	started chan struct{} // receives when a change starts
	pause   atomic.Pointer[chan struct{}]
	fail    atomic.Pointer[client.Refusal]
}

// played sets the functions before an agent is started.
func played(w *world, name string) *playedDCM {
	p := &playedDCM{started: make(chan struct{})}
	w.dcm[name].Run = func() {
		if pause := p.pause.Load(); pause != nil {
			p.started <- struct{}{}
			<-*pause
		}
	}
	w.dcm[name].Fail = func(string) *client.Refusal { return p.fail.Load() }
	return p
}

// inChange selects a profile and calls do during the change.
func (r *reporter) inChange(t *testing.T, profile string, do func()) {
	t.Helper()
	pause := make(chan struct{})
	r.dcm.pause.Store(&pause)
	r.label("n1", profile)
	select {
	case <-r.dcm.started:
	case <-r.ctx.Done():
		t.Fatal("no change was started")
	}
	do()
	r.dcm.pause.Store(nil)
	close(pause)
}

// unlabel removes the label that selects a profile.
func (r *reporter) unlabel() {
	r.do(http.MethodPatch, nodes+"/n1", object{"metadata": object{"labels": object{vendor.AMD.Profile: nil}}})
}

// withdrawnAtEnd waits for the end of a change whose label was removed, and checks the node's
// report of it.
func (r *reporter) withdrawnAtEnd(t *testing.T, profile string, partitions int) {
	t.Helper()
	r.until("success", []string{"n1"}, applied(profile, "success"))
	r.free()
	r.until("the condition", []string{"n1"}, func(o object) bool { return strings.HasPrefix(condition(o), "Unknown NoProfile: ") })
	o := r.do(http.MethodGet, nodes+"/n1", nil)
	t.Logf("%d partitions; state %v; last %v; condition %s", r.divided("n1"), sub(o, "metadata", "labels")[vendor.AMD.State], sub(o, "metadata", "annotations")[cluster.Last], condition(o))
	if wrong := r.wrong("n1"); wrong != nil || r.divided("n1") != partitions {
		t.Errorf("%q, %d partitions, want %d", wrong, r.divided("n1"), partitions)
	}
	if failures := r.warnings("n1"); failures != nil {
		t.Errorf("warnings: %q", failures)
	}
}

func (r *reporter) labelRemoved(t *testing.T) {
	r.inChange(t, "small", r.unlabel)
	r.withdrawnAtEnd(t, "small", 64)
	r.inChange(t, "whole", r.unlabel)
	r.withdrawnAtEnd(t, "whole", 8)
}

func (r *reporter) labelRemovedAndKilled(t *testing.T) {
	r.inChange(t, "small", func() { r.agent.kill(); r.unlabel() })
	r.agent.start()
	r.withdrawnAtEnd(t, "small", 64)
}

func (r *reporter) notUndone(t *testing.T) {
	r.dcm.fail.Store(&client.Refusal{Name: client.Failed, Reason: "the driver refuses", Hint: "see dmesg"})
	r.label("n1", "whole")
	r.until("the failure", []string{"n1"}, func(o object) bool {
		return sub(o, "metadata", "labels")[vendor.AMD.State] == "failure" && phase(o) == sequence.Applying &&
			strings.HasPrefix(condition(o), "False PartitionFailure: ") && strings.Contains(condition(o), "the driver refuses; see dmesg") && sub(o, "spec")["unschedulable"] == true
	})
	r.label("n2", "small")
	r.until("the holder of the budget", []string{"n2"}, func(o object) bool {
		return strings.Contains(condition(o), "all 1 Leases of the budget are held (by n1)")
	})
	for len(r.warnings("n1")) == 0 {
		select {
		case <-r.ctx.Done():
			t.Fatal("no Warning event")
		case <-time.After(100 * time.Millisecond): // events are not watched here
		}
	}
	for _, name := range []string{"n1", "n2"} {
		t.Logf("%s: %s", name, condition(r.do(http.MethodGet, nodes+"/"+name, nil)))
	}
	t.Logf("warnings: %q", r.warnings("n1"))
	r.dcm.fail.Store(nil)
	r.until("success once the cause is gone", []string{"n1"}, applied("whole", "success"))
	r.until("success on the other node", []string{"n2"}, applied("small", "success"))
	r.free()
}

func (r *reporter) clockSetBack(t *testing.T) {
	r.world.dcm["n1"].SetClockBack(time.Hour)
	r.label("n1", "small")
	r.until("success", []string{"n1"}, applied("small", "success"))
	r.free()
	if wrong := r.wrong("n1"); wrong != nil || r.divided("n1") != 64 {
		t.Errorf("%q, %d partitions, want 64", wrong, r.divided("n1"))
	}
}

// warnings returns the Warning events of a node as "REASON: NOTE", sorted.
func (w *world) warnings(node string) (out []string) {
	w.t.Helper()
	items, _ := w.do(http.MethodGet, "/apis/events.k8s.io/v1/namespaces/default/events", nil)["items"].([]any)
	for _, e := range items {
		e := e.(object)
		if e["type"] == "Warning" && sub(e, "regarding")["name"] == node {
			out = append(out, fmt.Sprintf("%v: %v", e["reason"], e["note"]))
		}
	}
	slices.Sort(out)
	return out
}
