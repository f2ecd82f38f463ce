package daemon

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"dcm/internal/engine/runstate"
	"dcm/internal/linux/systemd"
	"dcm/internal/linux/unitname"
)

// Services that were started while a run changed GPUs and failed are reported, unless they are clients,
// which are reported as such, or dcm's own.
func TestFailedStarts(t *testing.T) {
	began := time.Now().Add(-time.Minute)
	for _, tt := range []struct {
		name   string
		change func(*runstate.Run)
		want   []string
	}{
		{"a change", func(*runstate.Run) {}, []string{"late.service was started during the change and failed; systemctl restart late.service"}},
		{"a killed run", func(r *runstate.Run) { r.Finished, r.Result = time.Time{}, runstate.Running }, []string{
			"after.service was started during the change and failed; systemctl restart after.service",
			"late.service was started during the change and failed; systemctl restart late.service"}},
		{"no step has begun", func(r *runstate.Run) { r.Steps[0].Started = time.Time{} }, nil},
	} {
		t.Run(tt.name, func(t *testing.T) {
			h := newHost(t)
			h.steps, h.retry = 8, Backoff{First: time.Hour, Most: time.Hour}
			h.failed = map[string]time.Time{"before.service": began.Add(-time.Minute), "late.service": began.Add(time.Second), "after.service": began.Add(20 * time.Second),
				"a.service": began.Add(time.Second), unitname.Guard: began.Add(time.Second)}
			h.startedAgain()
			h.run = func(h *host) (systemd.Unit, *runstate.Run, error) {
				unit, run, err := succeed(h)
				run.Started, run.Finished = began, began.Add(10*time.Second)
				run.Steps = []runstate.Step{{Started: began}}
				a := h.units["a.service"]
				a.Active, a.Result = "failed", "exit-code"
				h.units["a.service"] = a
				tt.change(run)
				if run.Result == runstate.Running {
					unit.Active, unit.Result = "failed", "signal"
				}
				return unit, run, err
			}
			h.start()
			s := h.until("the end of a pass", func(s runstate.State) bool { return s.Phase == runstate.InSync || s.Phase == runstate.Waiting })
			if diff := cmp.Diff(tt.want, s.Warnings); diff != "" {
				t.Errorf("warnings (-want +got):\n%s", diff)
			}
			if tt.want == nil || s.Phase != runstate.InSync {
				return
			}
			for _, state := range []string{"failed", "active"} {
				h.set(func() { h.units["late.service"] = systemd.Unit{Name: "late.service", Load: "loaded", Active: state} })
				done := make(chan runstate.State, 1)
				h.requests <- Request{Asked: runstate.Asked{Why: "test"}, Done: done}
				if got := (<-done).Warnings; len(got) > 0 != (state == "failed") {
					t.Errorf("%s: warnings after another pass: %q", state, got)
				}
			}
		})
	}
}

// An edit without effect, during a run, keeps the warnings of the run.
func TestWarnings_EditWithoutEffect(t *testing.T) {
	h := newHost(t)
	began := time.Now()
	h.steps, h.failed = 8, map[string]time.Time{"late.service": began}
	h.units["late.service"] = systemd.Unit{Name: "late.service", Load: "loaded", Active: "failed"}
	h.run = func(h *host) (systemd.Unit, *runstate.Run, error) {
		unit, run, err := succeed(h)
		run.Started, run.Finished, run.Steps = began, began, []runstate.Step{{Started: began}}
		h.changed <- struct{}{} // read by the loop, which waits for the end of the run
		return unit, run, err
	}
	h.start()
	h.until("profile on the GPUs", phase(runstate.InSync))
	h.tick()
	if s := h.saved; len(s.Warnings) != 1 {
		t.Errorf("warnings %q, want that of late.service", s.Warnings)
	}
}
