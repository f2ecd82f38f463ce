package daemon

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"dcm/internal/engine/runstate"
	"dcm/internal/linux/systemd"
)

// using returns a process of the unit that has a GPU open.
func using(unit string) runstate.Holder {
	return runstate.Holder{PID: 9, Command: "p", Unit: unit, Devices: []string{"/dev/kfd"}}
}

func TestDiscover(t *testing.T) {
	const advice = "fit-a.service has a GPU open and is not listed under [clients]; if listed, it is restarted around a change"
	for _, test := range []struct {
		name             string
		suggest, include bool
		blocking         []runstate.Holder
		events           string
		phase            runstate.Phase
		warnings         []string
	}{
		{"are named", true, false, []runstate.Holder{using("fit-a.service")}, "", runstate.Waiting, []string{advice}},
		{"are not named when that is off", false, false, []runstate.Holder{using("fit-a.service")}, "", runstate.Waiting, nil},
		{"are not named when they could be no clients", true, false, []runstate.Holder{using("session-1.scope")}, "", runstate.Waiting, nil},
		{"become clients before the one restart", false, true, []runstate.Holder{using("fit-a.service"), using("fit-a.service")},
			"include:fit-a.service daemon-reload reset:a.service reset:fit-a.service restart:dcm-apply.service", runstate.InSync, nil},
		{"do not become clients if another process holds a GPU too", false, true, []runstate.Holder{using("fit-a.service"), using("")},
			"", runstate.Waiting, []string{advice}},
		{"are included once, whatever they do then", false, true, []runstate.Holder{using("fit-b.service")},
			"include:fit-b.service daemon-reload", runstate.Waiting, nil},
	} {
		t.Run(test.name, func(t *testing.T) {
			h := newHost(t)
			h.start()
			h.until("a verdict", phase(runstate.InSync))
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
				h.until("work begun", phase(runstate.Applying))
			}
			state := h.until("the end", func(s runstate.State) bool { return s.Phase == test.phase && s.Phase != runstate.Applying })
			if diff := cmp.Diff(test.warnings, state.Warnings); diff != "" {
				t.Errorf("warnings (-want +got):\n%s", diff)
			}
			if diff := cmp.Diff(test.events, h.did()); diff != "" {
				t.Errorf("events (-want +got):\n%s", diff)
			}
		})
	}
}
