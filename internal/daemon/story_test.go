package daemon

import (
	"strings"
	"testing"

	"dcm/internal/event"
	"dcm/internal/report"
	"dcm/internal/systemd"
)

// What the daemon tells of a run's end is what the run has told itself, or, where it
// came to nothing, which command kept it from it.
func TestTheEndOfARunIsToldOnce(t *testing.T) {
	why := &report.Error{Text: "no"}
	hook := systemd.Command{Directive: "ExecStartPre", Path: "/opt/drain", Status: 3}
	behind := systemd.Command{Directive: "ExecStartPost", Path: "/opt/tell", Status: 1}
	for _, test := range []struct {
		name   string
		failed systemd.Command
		run    report.Run
		end    event.ID
		text   string
	}{
		{"rolled back", systemd.Command{}, report.Run{Result: report.RolledBack, Error: why}, event.RolledBack, "no"},
		{"refused", systemd.Command{}, report.Run{Result: report.Refused, Error: why}, event.Refused, "no"},
		{"in use", systemd.Command{}, report.Run{Result: report.Refused, Error: why, Holders: []report.Holder{{PID: 1}}}, event.InUse, "no"},
		{"failed", systemd.Command{}, report.Run{Result: report.Failed, Error: why}, event.RunFailed, "no"},
		{"a hook before it", hook, report.Run{}, event.Refused, "dcm-apply.service failed: ExecStartPre=/opt/drain: exit status 3"},
		{"a hook behind it", behind, report.Run{Result: report.Applied}, event.RunFailed, "dcm-apply.service failed: ExecStartPost=/opt/tell: exit status 1"},
		{"killed", systemd.Command{}, report.Run{Result: report.Running}, event.RunFailed, "before it could say why"},
	} {
		u := systemd.Unit{Result: "exit-code", Failed: test.failed}
		if got := ending(u, &test.run); got != test.end {
			t.Errorf("%s: told as %s, want %s", test.name, got, test.end)
		}
		if got := whyFailed(u, &test.run).Text; !strings.Contains(got, test.text) {
			t.Errorf("%s: %q, want %q in it", test.name, got, test.text)
		}
	}
}
