package daemon

import (
	"strings"
	"testing"

	"dcm/internal/engine/event"
	"dcm/internal/engine/runstate"
	"dcm/internal/linux/systemd"
	"dcm/internal/linux/unitname"
)

// The daemon reports the run's own result or, if there is none, the command that failed.
func TestFailureEvent(t *testing.T) {
	why := &runstate.Error{Text: "no"}
	hook := systemd.Command{Directive: "ExecStartPre", Path: "/opt/drain", Status: 3}
	after := systemd.Command{Directive: "ExecStartPost", Path: "/opt/notify", Status: 1}
	for _, test := range []struct {
		name   string
		failed systemd.Command
		run    runstate.Run
		end    event.ID
		text   string
	}{
		{"rolled back", systemd.Command{}, runstate.Run{Result: runstate.RolledBack, Error: why}, event.RolledBack, "no"},
		{"refused", systemd.Command{}, runstate.Run{Result: runstate.Refused, Error: why}, event.Refused, "no"},
		{"in use", systemd.Command{}, runstate.Run{Result: runstate.Refused, Error: why, Holders: []runstate.Holder{{PID: 1}}}, event.InUse, "no"},
		{"failed", systemd.Command{}, runstate.Run{Result: runstate.Failed, Error: why}, event.RunFailed, "no"},
		{"a hook before it", hook, runstate.Run{}, event.Refused, "dcm-apply.service failed: ExecStartPre=/opt/drain: exit status 3"},
		{"a hook after it", after, runstate.Run{Result: runstate.Applied}, event.RunFailed, "dcm-apply.service failed: ExecStartPost=/opt/notify: exit status 1"},
		{"killed", systemd.Command{}, runstate.Run{Result: runstate.Running}, event.RunFailed, "before it wrote a reason"},
	} {
		u := systemd.Unit{Result: "exit-code", Failed: test.failed}
		if got := failureEvent(u, &test.run); got != test.end {
			t.Errorf("%s: event %s, want %s", test.name, got, test.end)
		}
		if got := whyFailed(unitname.Apply, u, &test.run).Text; !strings.Contains(got, test.text) {
			t.Errorf("%s: %q, want %q in it", test.name, got, test.text)
		}
	}
}
