package daemon

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"dcm/internal/engine/runstate"
	"dcm/internal/gpu/partition"
	"dcm/internal/linux/systemd"
	"dcm/internal/linux/unitname"
)

const gpu3 partition.Address = "0000:85:00.0"

// workers returns a host with eight active clients, w0 to w7, each with one GPU, and one observer.
func workers(t *testing.T) *host {
	h := newHost(t)
	h.settings.Order.Clients = nil
	h.units = map[string]systemd.Unit{unitname.Apply: {Name: unitname.Apply, Load: "loaded", Active: "active"}}
	for _, unit := range strings.Fields("w0 w1 w2 w3 w4 w5 w6 w7 dcgm") {
		unit += ".service"
		h.settings.Order.Clients = append(h.settings.Order.Clients, unit)
		h.units[unit] = systemd.Unit{Name: unit, Load: "loaded", Active: "active", Invocation: "0" + unit[1:2]}
	}
	h.generated = h.settings.Order.Clients
	h.steps = 1
	h.scope = &Scope{GPUs: []partition.Address{gpu3}, Concerning: concerning(gpu3, "w3.service", "dcgm.service")}
	return h
}

// concerning is [Scope.Concerning] of one GPU.
func concerning(gpu partition.Address, units ...string) func(string) []partition.Address {
	return func(unit string) []partition.Address {
		if slices.Contains(units, unit) {
			return []partition.Address{gpu}
		}
		return nil
	}
}

func TestScope(t *testing.T) {
	const partial = "reset:w3.service reset:dcgm.service hold around:w3.service,dcgm.service release restart:dcm-change.service READY"
	whole := ""
	for _, w := range "01234567" {
		whole += "reset:w" + string(w) + ".service "
	}
	whole += "reset:dcgm.service restart:dcm-apply.service READY"
	for _, test := range []struct {
		name   string
		given  func(h *host)
		events string
	}{
		{"only the affected units restart", func(*host) {}, partial},
		{"a change of the whole node", func(h *host) { h.scope = nil }, whole},
		{"a client that has its instance created", func(h *host) {
			h.settings.Order.Reserved = []systemd.Reserved{{Unit: "w3.service", Maker: "dcm-make@2g.20gb_w3.service.service"}, {Unit: "other@.service", Maker: "dcm-make@2g.20gb_%n.service"}}
		}, strings.Replace(partial, "dcgm.service release", "dcgm.service,dcm-make@2g.20gb_w3.service.service release", 1)},
		{"a change of the whole node with a client that has its instance created", func(h *host) {
			h.scope = nil
			h.settings.Order.Reserved = []systemd.Reserved{{Unit: "w3.service", Maker: "dcm-make@2g.20gb_w3.service.service"}}
		}, strings.Replace(whole, "restart:", "around:dcm-make@2g.20gb_w3.service.service restart:", 1)},
		{"all active clients are affected", func(h *host) { h.scope.Concerning = func(string) []partition.Address { return h.scope.GPUs } }, whole},
		{"a failed run of dcm-apply.service", func(h *host) {
			h.units[unitname.Apply] = systemd.Unit{Name: unitname.Apply, Load: "loaded", Active: "failed"}
		}, strings.Replace(whole, "READY", "reset:dcm-apply.service READY", 1)},
		{"a client that holds a GPU that it is not declared for", func(h *host) {
			h.blocking = []runstate.Holder{{PID: 7, Unit: "w5.service"}}
		}, "reset:w3.service reset:w5.service reset:dcgm.service hold around:w3.service,w5.service,dcgm.service release restart:dcm-change.service READY"},
		{"no active client is affected", func(h *host) {
			h.scope.Concerning = concerning(gpu3)
		}, "hold around: release restart:dcm-change.service READY"},
		{"a run of dcm-change.service in progress", func(h *host) {
			h.units[unitname.Change] = systemd.Unit{Name: unitname.Change, Load: "loaded", Active: "active", Job: true}
		}, "await " + partial},
	} {
		t.Run(test.name, func(t *testing.T) {
			h := workers(t)
			test.given(h)
			h.start()
			h.until("profile on the GPUs", phase(runstate.InSync))
			h.tick()
			if diff := cmp.Diff(test.events, h.did()); diff != "" {
				t.Errorf("events (-want +got):\n%s", diff)
			}
		})
	}
}

// The oneshot learns from the state which GPUs it may change and which units keep their partitions.
func TestScope_Published(t *testing.T) {
	h := workers(t)
	h.users = runstate.InstanceUsers{gpu3: {4: {{Name: "w3.service"}}}}
	h.start()
	s := h.until("a run", phase(runstate.Applying))
	if diff := cmp.Diff(h.users, s.Users); diff != "" {
		t.Errorf("users (-want +got):\n%s", diff)
	}
	want := &runstate.Change{GPUs: []partition.Address{gpu3}, Stopped: map[string]string{"w3.service": "03", "dcgm.service": "0c"}, Kept: strings.Fields("w0.service w1.service w2.service w4.service w5.service w6.service w7.service")}
	if diff := cmp.Diff(want, s.Change); diff != "" {
		t.Errorf("change (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff([]string{"dcgm.service", "w3.service"}, s.Pending.Units()); diff != "" {
		t.Errorf("pending starts (-want +got):\n%s", diff)
	}
	s = h.until("profile on the GPUs", phase(runstate.InSync))
	if len(s.Clients) != 2 || s.Clients[0].Unit != "w3.service" || !s.Clients[0].Back {
		t.Errorf("clients after it: %+v", s.Clients)
	}
}

const gpu4 partition.Address = "0000:a6:00.0"

// twoGPUs is a change of GPUs 3 and 4, of which the process with pid 7 blocks GPU 3.
func twoGPUs(h *host) {
	h.steps, h.changing = 2, []partition.Address{gpu3, gpu4}
	h.blocking = []runstate.Holder{{PID: 7, Command: "python3", Unit: "session-1.scope", Devices: []string{"/dev/dri/renderD152"}}, {PID: 8, Unit: "w4.service"}}
	four := &Scope{GPUs: []partition.Address{gpu4}, Concerning: concerning(gpu4, "w4.service", "dcgm.service")}
	h.scope = &Scope{
		GPUs: []partition.Address{gpu3, gpu4},
		Concerning: func(unit string) []partition.Address {
			return append(concerning(gpu3, "w3.service")(unit), four.Concerning(unit)...)
		},
		Without: func(blocking, all []runstate.Holder) (*Scope, []runstate.Holder) {
			if len(blocking) != 1 || blocking[0].PID != 7 || len(all) != 2 {
				h.t.Errorf("scope without %v of %v, want that without pid 7 of two", blocking, all)
			}
			return four, all[1:]
		},
		Part: func(gpus []partition.Address, all []runstate.Holder) (*Scope, []runstate.Holder) {
			if slices.Equal(gpus, four.GPUs) {
				return four, all
			}
			return &Scope{GPUs: gpus, Concerning: concerning(gpu3, "w3.service")}, all
		},
	}
}

// A holder blocks the change of its GPU alone. The units of the other GPU are restarted once, and the
// run reports the holder, so that the GPU changes when it has ended.
func TestScope_HeldGPU(t *testing.T) {
	h := workers(t)
	twoGPUs(h)
	h.run = func(h *host) (systemd.Unit, *runstate.Run, error) {
		h.steps, h.changing = 1, h.changing[:1]
		h.scope, h.blocking = &Scope{GPUs: []partition.Address{gpu3}, Concerning: concerning(gpu3, "w3.service")}, h.blocking[:1]
		failure := runstate.InUse(h.blocking)
		return systemd.Unit{Name: unitname.Change, Active: "failed", Result: "exit-code", Invocation: "1"},
			&runstate.Run{ID: "1", Profile: "cpx", Result: runstate.Partial, Error: failure, Holders: h.blocking, GPUs: []runstate.GPU{
				{Address: gpu3, Now: partition.Shape{Mode: partition.Mode{Compute: "SPX"}}, Want: partition.Shape{Mode: partition.Mode{Compute: "CPX"}}}, {Address: gpu4}}}, nil
	}
	h.startedAgain()
	h.start()
	s := h.until("a GPU that waits for its holder", func(s runstate.State) bool { return s.Phase == runstate.Waiting && s.Tries > 0 })
	if s.Change == nil || len(s.Change.GPUs) != 1 || s.Change.GPUs[0] != gpu4 {
		t.Errorf("change: %+v, want one of %s", s.Change, gpu4)
	}
	if len(s.Holders) != 1 || s.Holders[0].PID != 7 {
		t.Errorf("holders %v, want pid 7", s.Holders)
	}
	if diff := cmp.Diff([]partition.Address{gpu3}, s.Left); diff != "" {
		t.Errorf("GPUs left (-want +got):\n%s", diff)
	}
	s = h.until("a second attempt", func(s runstate.State) bool { return s.Phase == runstate.Waiting && s.Since.After(s.Tried) })
	if diff := cmp.Diff([]partition.Address{gpu3}, s.Left); diff != "" {
		t.Errorf("GPUs left after the second attempt (-want +got):\n%s", diff)
	}
	if got := h.did(); strings.Count(got, "around:") != 1 || !strings.Contains(got, "around:w4.service,dcgm.service") {
		t.Errorf("events: want one restart, of w4 and dcgm, got %s", got)
	}
}

func TestForesee_HeldGPU(t *testing.T) {
	h := workers(t)
	twoGPUs(h)
	got, err := Foresee(t.Context(), h.pid1(), h.settings, func([]string) []string { return nil }, h.scope, h.blocking)
	if err != nil {
		t.Fatal(err)
	}
	want := Forecast{Restarted: []string{"w4.service", "dcgm.service"}, Holders: h.blocking[:1], Left: []partition.Address{gpu3}}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("forecast (-want +got):\n%s", diff)
	}
}

// One GPU fails permanently, and another one waits for its holder. When the holder has ended, the other one
// changes, and the one that failed stays as it is until an administrator requests a run.
func TestScope_HeldGPUWithFailure(t *testing.T) {
	for _, tt := range []struct {
		name  string
		given func(*host)
	}{
		{"the users of the other GPUs stay", func(*host) {}},
		{"all active clients use the GPU", func(h *host) {
			for unit, u := range h.units {
				if unit != "w3.service" && unit != unitname.Apply {
					u.Active = "inactive"
					h.units[unit] = u
				}
			}
		}},
		{"the first run was for all GPUs", func(h *host) {
			h.units[unitname.Apply] = systemd.Unit{Name: unitname.Apply, Load: "loaded", Active: "failed"}
		}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			h := workers(t)
			twoGPUs(h)
			h.run = failsOnGPU4
			h.startedAgain()
			h.start()
			s := h.until("a permanent failure", phase(runstate.Stuck))
			if len(s.Left) != 1 || !s.Retry.IsZero() {
				t.Errorf("GPUs left %v, retry at %s; want GPU 3, and no retry at a time", s.Left, s.Retry)
			}
			h.set(func() { h.blocking, h.run = nil, changesGPU3; tt.given(h) })
			h.did()
			close(h.gone)
			s = h.until("a run after the end of the holder", phase(runstate.Applying))
			if c := s.Change; c == nil || !slices.Equal(c.GPUs, []partition.Address{gpu3}) || !slices.Equal(c.Later, []partition.Address{gpu4}) {
				t.Errorf("change %+v, want GPU 3 without GPU 4", c)
			}
			s = h.until("a permanent failure", phase(runstate.Stuck))
			if s.Error.Text != "0000:a6:00.0: set CPX: no" || len(s.Left) > 0 || !s.Retry.IsZero() {
				t.Errorf("error %q, GPUs left %v, retry at %s; want the error of GPU 4 alone", s.Error.Text, s.Left, s.Retry)
			}
			h.tick()
			if got := h.did(); strings.Count(got, "around:") != 1 || strings.Contains(got, "w4") || strings.Contains(got, "dcm-apply") {
				t.Errorf("events %q, want one run without the users of GPU 4", got)
			}
			done := h.ask()
			s = h.until("a requested run", phase(runstate.Applying))
			if s.Change != nil && !slices.Contains(s.Change.GPUs, gpu4) {
				t.Errorf("change %+v, want GPU 4", s.Change)
			}
			h.answered(done)
		})
	}
}

// failsOnGPU4 is a run in which GPU 4 fails permanently, while a process holds GPU 3.
func failsOnGPU4(h *host) (systemd.Unit, *runstate.Run, error) {
	spx, cpx := partition.Shape{Mode: partition.Mode{Compute: "SPX"}}, partition.Shape{Mode: partition.Mode{Compute: "CPX"}}
	return systemd.Unit{Name: unitname.Change, Active: "failed", Result: "exit-code", Invocation: "1"}, &runstate.Run{
		ID: "1", Profile: "cpx", Result: runstate.RolledBack, Error: &runstate.Error{Text: "0000:a6:00.0: set CPX: no; GPU 3 is in use"},
		Holders: h.blocking[:1],
		GPUs:    []runstate.GPU{{Address: gpu3, Now: spx, Want: cpx}, {Address: gpu4, Now: spx, Want: cpx}},
		Steps:   []runstate.Step{{Step: partition.Step{GPU: gpu4}, Started: time.Unix(1, 0), Error: "0000:a6:00.0: set CPX: no"}},
	}, nil
}

// changesGPU3 is a run that changes GPU 3 and leaves GPU 4 to a later one.
func changesGPU3(h *host) (systemd.Unit, *runstate.Run, error) {
	h.steps, h.changing = 1, []partition.Address{gpu4}
	h.scope = &Scope{GPUs: h.changing, Concerning: concerning(gpu4, "w4.service", "dcgm.service"), Part: h.scope.Part}
	return systemd.Unit{Name: unitname.Change, Active: "active", Sub: "exited", Result: "success", Invocation: "2"},
		&runstate.Run{ID: "2", Profile: "cpx", Result: runstate.Round}, nil
}
