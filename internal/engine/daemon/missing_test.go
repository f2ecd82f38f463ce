package daemon

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"dcm/internal/linux/systemd"
	"dcm/internal/linux/unitname"
)

// Each unit had invocation ID 1 when a run stopped it.
func TestMissing(t *testing.T) {
	unit := func(name, run, active, result string, e systemd.End) down {
		return down{systemd.Unit{Name: name, ID: name, Load: "loaded", Active: active, Result: result, Invocation: run}, e}
	}
	pending := stoppedBy("a.service", "1", "b.service", "1", "b.socket", "1", "old.service", "", "gpu.target", "1")
	for _, test := range []struct {
		name    string
		units   []down
		require bool
		want    []string
	}{
		{"a condition of its own was not met", []down{unit("a.service", "1", "inactive", "success", systemd.End{Left: 5, Skipped: true})}, false, []string{"a.service"}},
		{"it exited with success", []down{unit("a.service", "2", "inactive", "success", systemd.End{Began: 5, Exited: 7, Left: 8})}, false, []string{"a.service"}},
		{"it failed", []down{unit("a.service", "2", "failed", "exit-code", systemd.End{Began: 5, Exited: 7, Left: 8})}, false, []string{"a.service"}},
		{"it failed before it was up", []down{unit("a.service", "2", "failed", "exit-code", systemd.End{Began: 9, Exited: 10, Left: 4})}, false, []string{"a.service"}},
		{"its start limit was hit", []down{unit("a.service", "1", "failed", "start-limit-hit", systemd.End{Began: 1, Exited: 5, Left: 4})}, false, []string{"a.service"}},
		{"stopped by an administrator", []down{unit("a.service", "2", "inactive", "success", systemd.End{Began: 5, Left: 7, Exited: 8})}, false, nil},
		{"stopped by an administrator, and failed at the stop", []down{unit("a.service", "2", "failed", "exit-code", systemd.End{Began: 5, Left: 7, Exited: 8})}, false, nil},
		{"a unit with RemainAfterExit=, stopped by an administrator", []down{unit("a.service", "2", "inactive", "success", systemd.End{Began: 5, Exited: 6, Left: 8, Remains: true})}, false, nil},
		{"a target, stopped by an administrator", []down{unit("gpu.target", "2", "inactive", "", systemd.End{Began: 5, Left: 8})}, false, nil},
		{"stopped by an administrator during the run", []down{unit("a.service", "1", "inactive", "success", systemd.End{Began: 1, Left: 7, Exited: 8})}, false, nil},
		{"the run that it requires failed", []down{unit("a.service", "1", "inactive", "success", systemd.End{Began: 1, Left: 7, Exited: 8})}, true, []string{"a.service"}},
		{"it requires the run by itself", []down{unit("a.service", "1", "inactive", "success", systemd.End{Began: 1, Left: 7, Exited: 8, Needs: []string{unitname.Apply}})}, false, []string{"a.service"}},
		{"a unit that it requires failed", []down{
			unit("a.service", "1", "inactive", "success", systemd.End{Began: 1, Left: 7, Exited: 8, Needs: []string{"b.service"}}),
			unit("b.service", "2", "failed", "exit-code", systemd.End{Began: 9, Exited: 10, Left: 11}),
		}, false, []string{"a.service", "b.service"}},
		{"a socket starts before its service and all others", []down{
			unit("a.service", "2", "failed", "exit-code", systemd.End{Began: 5, Exited: 7, Left: 8}),
			unit("b.service", "2", "failed", "exit-code", systemd.End{Began: 5, Exited: 7, Left: 8}),
			unit("b.socket", "1", "failed", "service-start-limit-hit", systemd.End{Began: 1, Exited: 7, Left: 4}),
		}, false, []string{"b.socket", "a.service", "b.service"}},
		{"its BindsTo= unit ended", []down{
			unit("a.service", "2", "inactive", "success", systemd.End{Began: 10, Left: 12, Exited: 13, Bound: []string{"b.service"}}),
			unit("b.service", "2", "inactive", "success", systemd.End{Began: 9, Exited: 10, Left: 11}),
		}, false, []string{"a.service", "b.service"}},
		{"its BindsTo= unit ended after an administrator stopped it", []down{
			unit("a.service", "2", "inactive", "success", systemd.End{Began: 7, Left: 8, Exited: 9, Bound: []string{"b.service"}}),
			unit("b.service", "2", "inactive", "success", systemd.End{Began: 7, Exited: 10, Left: 11}),
		}, false, []string{"b.service"}},
		{"its BindsTo= unit ended, and was started and ended again", []down{
			unit("a.service", "2", "inactive", "success", systemd.End{Began: 10, Left: 12, Exited: 13, Bound: []string{"b.service"}}),
			unit("b.service", "3", "failed", "exit-code", systemd.End{Began: 20, Exited: 21, Left: 22}),
		}, false, []string{"a.service", "b.service"}},
		{"its BindsTo= unit was stopped by an administrator", []down{
			unit("a.service", "2", "inactive", "success", systemd.End{Began: 10, Left: 12, Exited: 13, Bound: []string{"b.service"}}),
			unit("b.service", "2", "inactive", "success", systemd.End{Began: 9, Left: 11, Exited: 12}),
		}, false, nil},
		{"no main process, and the last process has ended", []down{unit("a.service", "2", "inactive", "success", systemd.End{Began: 5, Left: 8, Gone: 8})}, false, []string{"a.service"}},
		{"no main process, stopped by an administrator", []down{unit("a.service", "2", "inactive", "success", systemd.End{Began: 5, Left: 8, Gone: 9})}, false, nil},
		{"PID 1 has unloaded it", []down{unit("a.service", "", "inactive", "", systemd.End{})}, false, nil},
		{"failed, with an unknown invocation", []down{unit("old.service", "2", "failed", "exit-code", systemd.End{})}, false, []string{"old.service"}},
		{"inactive, with an unknown invocation", []down{unit("old.service", "2", "inactive", "success", systemd.End{Began: 1, Exited: 2, Left: 3})}, false, nil},
	} {
		t.Run(test.name, func(t *testing.T) {
			if diff := cmp.Diff(test.want, pending.missing(test.units, test.require)); diff != "" {
				t.Errorf("missing (-want +got):\n%s", diff)
			}
		})
	}
}

func TestForget(t *testing.T) {
	pending := stoppedBy("a.service", "1", "b.service", "1", "c.service", "1", "d.socket", "1")
	pending.forget([]systemd.Unit{
		{ID: "a.service", Active: "active", Invocation: "1"},
		{ID: "b.service", Active: "active", Invocation: "2"},
		{ID: "c.service", Active: "inactive", Invocation: "1"},
		{ID: "d.socket", Active: "active", Invocation: "1"},
	})
	if diff := cmp.Diff(stoppedBy("b.service", "1", "c.service", "1", "d.socket", "1"), pending); diff != "" {
		t.Errorf("pending starts (-want +got):\n%s", diff)
	}
}
