package daemon

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"dcm/internal/report"
	"dcm/internal/systemd"
)

// using is a process of the unit that has a GPU open.
func using(unit string) report.Holder {
	return report.Holder{PID: 9, Command: "p", Unit: unit, Devices: []string{"/dev/kfd"}}
}

func TestServicesThatAreInTheWay(t *testing.T) {
	const advice = "fit-a.service has a GPU open and is not listed under [clients]; listed there, it would be restarted around a change"
	for _, test := range []struct {
		name             string
		suggest, include bool
		blocking         []report.Holder
		events           string
		phase            report.Phase
		warnings         []string
	}{
		{"are named", true, false, []report.Holder{using("fit-a.service")}, "", report.Waiting, []string{advice}},
		{"are not named when that is off", false, false, []report.Holder{using("fit-a.service")}, "", report.Waiting, nil},
		{"are not named when they could be no clients", true, false, []report.Holder{using("session-1.scope")}, "", report.Waiting, nil},
		{"become clients before the one restart", false, true, []report.Holder{using("fit-a.service"), using("fit-a.service")},
			"include:fit-a.service daemon-reload reset:a.service reset:fit-a.service restart:dcm-apply.service", report.InSync, nil},
		{"do not when somebody else is in the way too", false, true, []report.Holder{using("fit-a.service"), using("")},
			"", report.Waiting, []string{advice}},
		{"are included once, whatever they do then", false, true, []report.Holder{using("fit-b.service")},
			"include:fit-b.service daemon-reload", report.Waiting, nil},
	} {
		t.Run(test.name, func(t *testing.T) {
			h := newHost(t)
			h.start()
			h.until("a verdict", phase(report.InSync))
			h.tick()
			h.did()
			h.set(func() {
				h.settings.Suggest, h.settings.Include = test.suggest, test.include
				h.steps, h.blocking = 3, test.blocking
				h.units["fit-a.service"] = systemd.Unit{Name: "fit-a.service", Load: "loaded", Active: "active"}
				h.retry = Backoff{First: 1 << 40, Most: 1 << 40}
			})
			h.changed <- struct{}{}
			if strings.Contains(test.events, "restart:") {
				h.until("work begun", phase(report.Applying))
			}
			state := h.until("the end", func(s report.State) bool { return s.Phase == test.phase && s.Phase != report.Applying })
			if diff := cmp.Diff(test.warnings, state.Warnings); diff != "" {
				t.Errorf("warnings (-want +got):\n%s", diff)
			}
			if diff := cmp.Diff(test.events, h.did()); diff != "" {
				t.Errorf("events (-want +got):\n%s", diff)
			}
		})
	}
}
