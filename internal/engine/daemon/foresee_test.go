package daemon

import (
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"dcm/internal/engine/runstate"
	"dcm/internal/linux/systemd"
)

func TestForesee(t *testing.T) {
	client := runstate.Holder{PID: 5, Command: "a", Unit: "a.service", Devices: []string{"/dev/kfd"}}
	fit := runstate.Holder{PID: 6, Command: "vllm", Unit: "fit-vllm.service", Devices: []string{"/dev/kfd"}}
	user := runstate.Holder{PID: 7, Command: "python3", Unit: "session-1.scope", Devices: []string{"/dev/kfd"}}
	lease := runstate.Holder{PID: 8, Command: "sleep", Unit: "dcm-lease-0-4f1c09aa.scope", Lessee: "root"}
	frozen := runstate.Holder{PID: 9, Command: "icy", Unit: "frozen.service", Devices: []string{"/dev/kfd"}}
	for _, test := range []struct {
		name      string
		include   bool
		holders   []runstate.Holder
		restarted []string
		included  []string
		hint      string // of the refusal; "" if there is none
	}{
		{"no holder", false, nil, []string{"a.service", "frozen.service"}, nil, ""},
		{"a client", false, []runstate.Holder{client}, []string{"a.service", "frozen.service"}, nil, ""},
		{"a lease", false, []runstate.Holder{lease}, []string{"a.service", "frozen.service"}, nil, "end them with dcm lease release"},
		{"a lease, with discovery", true, []runstate.Holder{lease}, []string{"a.service", "frozen.service"}, nil, "end them with dcm lease release"},
		{"a service", false, []runstate.Holder{fit}, []string{"a.service", "frozen.service"}, nil, "list their services under [clients]"},
		{"a service, with discovery", true, []runstate.Holder{client, fit}, []string{"a.service", "frozen.service", "fit-vllm.service"}, []string{"fit-vllm.service"}, ""},
		{"a service and a user, with discovery", true, []runstate.Holder{fit, user}, []string{"a.service", "frozen.service"}, nil, "list their services under [clients]"},
		{"a client that is frozen", true, []runstate.Holder{frozen}, []string{"a.service", "frozen.service"}, nil, "systemctl thaw frozen.service"},
	} {
		t.Run(test.name, func(t *testing.T) {
			h := newHost(t)
			for _, unit := range []string{"fit-vllm.service", "frozen.service"} {
				h.units[unit] = systemd.Unit{Name: unit, Load: "loaded", Active: "active", Result: "success"}
			}
			s := h.settings
			s.Include, s.Order.Clients = test.include, append(slices.Clone(s.Order.Clients), "frozen.service")
			got, err := Foresee(t.Context(), h.pid1(), s, func(units []string) []string {
				return slices.DeleteFunc(units, func(u string) bool { return !strings.HasPrefix(u, "fit-") })
			}, nil, test.holders)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(test.restarted, got.Restarted); diff != "" {
				t.Errorf("restarted (-want +got):\n%s", diff)
			}
			if !slices.Equal(got.Included, test.included) {
				t.Errorf("included are %q, want %q", got.Included, test.included)
			}
			if refused := got.Refused != nil; refused != (test.hint != "") || refused && !strings.Contains(got.Refused.Hint, test.hint) {
				t.Errorf("refused with %+v, want a hint with %q", got.Refused, test.hint)
			}
		})
	}
}
