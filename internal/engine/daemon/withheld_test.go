package daemon

import (
	"maps"
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

// requiring is a fleet whose clients require the profile. PID 1 starts a client only if it is not withheld,
// and the run releases the clients of GPUs that have succeeded.
type requiring struct {
	*fleet
	fails  map[partition.Address]bool
	killed bool // the run is killed before it releases clients
}

func newRequiring(t *testing.T, differs string) *requiring {
	x := &requiring{fleet: newFleet(t, differs), fails: make(map[partition.Address]bool)}
	x.settings.Budgets, x.settings.Require, x.settings.Order.PerGPU = nil, true, true
	x.add("dcgm.service")
	x.ends = make(map[string]systemd.End)
	for unit := range x.units {
		x.ends[unit] = systemd.End{Needs: []string{unitname.Apply}}
	}
	x.run = x.change
	return x
}

func (x *requiring) change(h *host) (systemd.Unit, *runstate.Run, error) {
	change, killed := x.saved.Change, x.killed
	unit, run, err := x.fleet.change(func(a partition.Address) bool { return x.fails[a] })(h)
	x.killed = false
	switch {
	case killed:
		unit, run = systemd.Unit{Name: unitname.Change, Active: "failed", Result: "signal", Invocation: "1"}, &runstate.Run{ID: "1", Profile: run.Profile, Result: runstate.Running}
	case run.Result.OK():
		x.must(x.withheld.Clear())
	default:
		x.must(x.withheld.Keep(func(_ string, a partition.Address) bool { return x.differs[a] }))
	}
	if change != nil {
		for name := range change.Stopped {
			x.tryStart(name, "2"+name)
		}
	}
	return unit, run, err
}

func (x *requiring) must(err error) {
	if err != nil {
		x.t.Error(err)
	}
}

// tryStart starts a unit unless it is withheld.
func (x *requiring) tryStart(name, invocation string) {
	u := x.units[name]
	if _, withheld := x.held()[name]; withheld {
		u.Active = "inactive"
	} else {
		u.Active, u.Invocation = "active", invocation
	}
	x.units[name] = u
}

func (x *requiring) held() map[string][]partition.Address {
	out, err := x.withheld.Read()
	x.must(err)
	return out
}

// isDown compares the clients that are down, and those that are withheld, such as "w5 dcgm".
func (x *requiring) isDown(when, want string) {
	x.t.Helper()
	x.set(func() {
		var down []string
		for _, unit := range x.settings.Order.Clients {
			if x.units[unit].Active != "active" {
				down = append(down, strings.TrimSuffix(unit, ".service"))
			}
		}
		if got := strings.Join(down, " "); got != want {
			x.t.Errorf("%s: %q down, want %q", when, got, want)
		}
		got := slices.Sorted(maps.Keys(x.held()))
		all := strings.Fields(want)
		slices.Sort(all)
		for i := range all {
			all[i] += ".service"
		}
		if !slices.Equal(got, all) {
			x.t.Errorf("%s: %q withheld, want %q", when, got, all)
		}
	})
}

// started applies the starts of the daemon since the last call.
func (x *requiring) started() {
	for _, e := range strings.Fields(x.did()) {
		if unit, ok := strings.CutPrefix(e, "start:"); ok {
			x.set(func() { x.tryStart(unit, "3"+unit) })
		}
	}
}

// A GPU that fails keeps its clients down, and those of all GPUs. The others are back, also after a run of
// all clients. When the GPU has succeeded, they are started.
func TestWithheld(t *testing.T) {
	for name, differs := range map[string]string{"two GPUs": "4 5", "one GPU": "5", "all GPUs": "0 1 2 3 4 5 6 7"} {
		t.Run(name, func(t *testing.T) {
			x := newRequiring(t, differs)
			x.fails["5"] = true
			x.retry = Backoff{First: time.Hour, Most: time.Hour}
			x.startedAgain()
			x.start()
			x.until("a failed change", phase(runstate.Waiting))
			x.isDown("after the failure", "w5 dcgm")
			if got := x.did(); !strings.Contains(got, "restart:dcm-change.service") || strings.Contains(got, "restart:dcm-apply.service") {
				t.Errorf("events %q, want a run for single GPUs", got)
			}
			x.set(func() { clear(x.fails) })
			x.hangup <- nil
			x.until("profile on the GPUs", phase(runstate.InSync))
			x.tick()
			x.started()
			x.isDown("after the success", "")
		})
	}
}

// A change of single GPUs needs an active dcm-apply.service.
func TestWithheld_NotApplied(t *testing.T) {
	for _, state := range []string{"failed", "inactive"} {
		x := newRequiring(t, "4 5")
		x.units[unitname.Apply] = systemd.Unit{Name: unitname.Apply, Load: "loaded", Active: state}
		x.settings.Budgets = []Budget{{Units: []string{"w*"}, MaxDown: 8}}
		x.start()
		x.until("profile on the GPUs", phase(runstate.InSync))
		x.tick()
		if got := x.arounds(); got != "all" {
			t.Errorf("%s: rounds %q, want one run for all", state, got)
		}
	}
}

// In rounds only the GPUs of the round count. A GPU that failed is retried before the others, although its
// clients are down.
func TestWithheld_Rounds(t *testing.T) {
	for _, rolling := range []bool{false, true} {
		x := newRequiring(t, "")
		if !rolling {
			x.settings.Budgets = []Budget{{Units: []string{"w*.service"}, MaxDown: 1}}
		}
		x.wantedBy = "multi-user.target"
		x.start()
		x.until("no change", phase(runstate.InSync))
		tries := 0
		run := x.run
		x.run = func(h *host) (systemd.Unit, *runstate.Run, error) {
			if tries++; tries == 3 {
				clear(x.fails)
			}
			u, r, err := run(h)
			if _, later := x.held()["w4.service"]; later {
				t.Error("w4 is withheld for GPU 4 of a later round")
			}
			return u, r, err
		}
		x.set(func() { x.fails["3"] = true; x.differ("2 3 4") })
		x.command("test", runstate.Selection{Rolling: rolling})
		x.until("profile on the GPUs", func(s runstate.State) bool { x.started(); return s.Phase == runstate.InSync })
		x.tick()
		x.started()
		x.isDown("after the last round", "")
		if tries < 4 {
			t.Errorf("rolling %t: %d runs, want GPUs 2, 3 twice, and 4", rolling, tries)
		}
	}
}

// The run was killed, after it had published the partitions and before it released clients. GPU 5 cannot
// change any more. The clients of GPU 4 are started by the next pass.
func TestWithheld_RunKilled(t *testing.T) {
	x := newRequiring(t, "4 5")
	x.fails["5"], x.killed = true, true
	x.retry = Backoff{First: time.Millisecond, Most: time.Hour}
	x.startedAgain()
	x.start()
	x.until("a killed run", phase(runstate.Waiting))
	x.until("a failed run", func(s runstate.State) bool { return s.Phase == runstate.Waiting && s.Tries > 1 })
	x.started()
	x.isDown("after the failure", "w5 dcgm")
}

// The run was killed before it published the partitions. A change with --rolling repeats it: the clients that it starts
// are down only because of that run.
func TestWithheld_RollingRepeatsRun(t *testing.T) {
	x := newRequiring(t, "4 5")
	x.killed, x.retry = true, Backoff{First: time.Hour, Most: time.Hour}
	run := x.run
	x.run = func(h *host) (systemd.Unit, *runstate.Run, error) {
		x.unpublished = x.killed
		return run(h)
	}
	x.startedAgain()
	x.start()
	x.until("a killed run", phase(runstate.Waiting))
	x.isDown("after the kill", "w4 w5 dcgm")
	x.command("dcm apply --rolling", runstate.Selection{Rolling: true})
	x.until("profile on the GPUs", phase(runstate.InSync))
	x.tick()
	x.started()
	x.isDown("after the repetition", "")
}

// The daemon was killed between two calls of a change.
func TestWithheld_DaemonKilled(t *testing.T) {
	for _, tt := range []struct {
		name  string
		given func(x *requiring)
		want  map[string][]partition.Address
	}{
		{"before the restart of units", func(*requiring) {}, nil},
		{"before the restart of one", func(x *requiring) { x.down("w4.service", "inactive") }, map[string][]partition.Address{"w4.service": {"4"}}},
		{"before the release", func(x *requiring) {
			for _, unit := range []string{"w4.service", "w5.service", "dcgm.service"} {
				x.down(unit, "inactive")
			}
			delete(x.differs, "4")
			x.observe()
		}, map[string][]partition.Address{"w5.service": {"5"}, "dcgm.service": {"5"}}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			x := newRequiring(t, "4 5")
			x.must(x.withheld.Add(map[string][]partition.Address{"w4.service": {"4"}, "w5.service": {"5"}, "dcgm.service": {"4", "5"}, "gone.service": {"5"}}))
			tt.given(x)
			x.blocking = []runstate.Holder{{PID: 7, Command: "python3"}} // so that no run begins
			x.startedAgain()
			x.start()
			x.until("a refusal", phase(runstate.Waiting))
			if diff := cmp.Diff(tt.want, x.held()); diff != "" && len(x.held())+len(tt.want) > 0 {
				t.Errorf("withheld (-want +got):\n%s", diff)
			}
		})
	}
}

// Edits release clients.
func TestWithheld_Edits(t *testing.T) {
	for name, edit := range map[string]func(x *requiring){
		"no profile":                   func(x *requiring) { x.settings.Selected = false },
		"the former profile":           func(x *requiring) { clear(x.differs); x.observe() },
		"require = false":              func(x *requiring) { x.settings.Require = false },
		"changes of the whole node":    func(x *requiring) { x.settings.Order.PerGPU = false },
		"the clients are no longer so": func(x *requiring) { x.settings.Order.Clients = x.settings.Order.Clients[:5] },
	} {
		t.Run(name, func(t *testing.T) {
			x := newRequiring(t, "5")
			x.fails["5"] = true
			x.retry = Backoff{First: time.Hour, Most: time.Hour}
			x.startedAgain()
			x.start()
			x.until("a failed change", phase(runstate.Waiting))
			x.set(func() { edit(x); x.generated = x.settings.Order.Clients; x.fails = map[partition.Address]bool{} })
			x.hangup <- nil
			x.until("the next pass", func(s runstate.State) bool { return s.Phase == runstate.InSync || s.Phase == runstate.Idle })
			if got := x.held(); len(got) > 0 {
				t.Errorf("withheld %v, want none", got)
			}
		})
	}
}

// After an installation without a reboot dcm-apply.service has not run. The daemon starts it when nothing has
// to be changed, so that the first change concerns only the clients of its GPUs.
func TestRequire_FirstChange(t *testing.T) {
	for _, tt := range []struct {
		name    string
		given   func(*requiring)
		started bool
	}{
		{"not run", func(x *requiring) { x.units[unitname.Apply] = inactiveRun("inactive") }, true},
		{"failed", func(x *requiring) { x.units[unitname.Apply] = inactiveRun("failed") }, true},
		{"has run", func(*requiring) {}, false},
		{"clients do not require it", func(x *requiring) {
			x.units[unitname.Apply], x.settings.Require = inactiveRun("inactive"), false
		}, false},
		{"changes concern the whole node", func(x *requiring) {
			x.units[unitname.Apply], x.settings.Order.PerGPU = inactiveRun("inactive"), false
		}, false},
		{"the GPUs differ", func(x *requiring) { x.units[unitname.Apply] = inactiveRun("inactive"); x.differ("5") }, false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			x := newRequiring(t, "")
			tt.given(x)
			x.start()
			x.until("profile on the GPUs", phase(runstate.InSync))
			x.tick()
			if got := x.did(); strings.HasPrefix(got, "start:"+unitname.Apply) != tt.started || tt.started && strings.Contains(got, "restart:") {
				t.Errorf("events %q, want a start of dcm-apply.service: %t", got, tt.started)
			}
		})
	}
}

// inactiveRun is dcm-apply.service in that state.
func inactiveRun(state string) systemd.Unit {
	return systemd.Unit{Name: unitname.Apply, Load: "loaded", Active: state}
}
