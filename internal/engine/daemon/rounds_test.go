package daemon

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"dcm/internal/engine/runstate"
	"dcm/internal/gpu/partition"
	"dcm/internal/linux/systemd"
	"dcm/internal/linux/unitname"
)

// fleet is a host with eight GPUs, "0" to "7", of which some differ from the profile, and with the services
// w0 to w7, of which a budget permits two to be down.
type fleet struct {
	*host
	differs map[partition.Address]bool
	uses    map[string][]partition.Address // GPUs of units; others use any
}

func newFleet(t *testing.T, differs string) *fleet {
	f := &fleet{newHost(t), make(map[partition.Address]bool), make(map[string][]partition.Address)}
	f.settings.Budgets = []Budget{{Units: []string{"w*.service"}, MaxDown: 2}}
	f.settings.SettleTime = time.Millisecond
	f.settings.Order.Clients = nil
	f.units = map[string]systemd.Unit{unitname.Apply: {Name: unitname.Apply, Load: "loaded", Active: "active"}}
	for i := range 8 {
		f.add(fmt.Sprintf("w%d.service", i), partition.Address(fmt.Sprint(i)))
	}
	f.generated = f.settings.Order.Clients
	f.run = f.change(func(partition.Address) bool { return false })
	f.differ(differs)
	return f
}

// add adds an active client.
func (f *fleet) add(unit string, gpus ...partition.Address) {
	f.settings.Order.Clients = append(f.settings.Order.Clients, unit)
	f.generated = f.settings.Order.Clients
	f.units[unit] = systemd.Unit{Name: unit, Load: "loaded", Active: "active", Invocation: "1" + unit}
	if len(gpus) > 0 {
		f.uses[unit] = gpus
	}
}

// differ sets the GPUs that differ from the profile.
func (f *fleet) differ(gpus string) {
	for _, a := range strings.Fields(gpus) {
		f.differs[partition.Address(a)] = true
	}
	f.observe()
}

// observe updates what the daemon observes.
func (f *fleet) observe() {
	f.steps, f.scope, f.changing = len(f.differs), nil, slices.Sorted(maps.Keys(f.differs))
	f.turns++
	if f.steps > 0 {
		f.scope = f.scopeOf(slices.Sorted(maps.Keys(f.differs)))
	}
}

func (f *fleet) scopeOf(gpus []partition.Address) *Scope {
	if len(gpus) == 0 {
		return nil
	}
	return &Scope{
		GPUs: gpus, Total: 8,
		Known: func(unit string) bool { return f.uses[unit] != nil },
		Concerning: func(unit string) []partition.Address {
			if f.uses[unit] == nil {
				return gpus
			}
			return slices.DeleteFunc(slices.Clone(gpus), func(a partition.Address) bool { return !slices.Contains(f.uses[unit], a) })
		},
		Part: func(some []partition.Address, all []runstate.Holder) (*Scope, []runstate.Holder) {
			return f.scopeOf(some), all
		},
	}
}

// change is a run that puts the profile on the requested GPUs, except those that fail.
func (f *fleet) change(fails func(partition.Address) bool) func(*host) (systemd.Unit, *runstate.Run, error) {
	return func(*host) (systemd.Unit, *runstate.Run, error) {
		c := f.saved.Change
		run := &runstate.Run{ID: "1", Profile: "cpx", Result: runstate.Applied}
		if c == nil {
			clear(f.differs)
			f.observe()
			return systemd.Unit{Name: unitname.Apply, Active: "active", Result: "success", Invocation: "1"}, run, nil
		}
		if len(c.Later) > 0 {
			run.Result = runstate.Round
		}
		for _, a := range c.GPUs {
			if fails(a) {
				run.Result, run.Error = runstate.Partial, &runstate.Error{Text: "GPU " + string(a) + " is busy", Transient: true}
			} else {
				delete(f.differs, a)
			}
		}
		f.observe()
		if run.Error != nil {
			return systemd.Unit{Name: unitname.Change, Active: "failed", Result: "exit-code", Invocation: "1"}, run, nil
		}
		return systemd.Unit{Name: unitname.Change, Active: "active", Sub: "exited", Result: "success", Invocation: "1"}, run, nil
	}
}

// arounds returns the units of each round since the last call, such as "w0,w1 w2".
func (f *fleet) arounds() string {
	var out []string
	for _, e := range strings.Fields(f.did()) {
		if units, ok := strings.CutPrefix(e, "around:"); ok {
			out = append(out, strings.ReplaceAll(units, ".service", ""))
		} else if e == "restart:"+unitname.Apply {
			out = append(out, "all")
		}
	}
	return strings.Join(out, " ")
}

func (f *fleet) down(unit, active string) {
	u := f.units[unit]
	u.Active = active
	f.units[unit] = u
}

func TestRounds(t *testing.T) {
	const every = "0 1 2 3 4 5 6 7"
	for _, tt := range []struct {
		name    string
		differs string
		given   func(f *fleet)
		want    string
	}{
		{"two at a time", every, func(*fleet) {}, "w0,w1 w2,w3 w4,w5 w6,w7"},
		{"one GPU", "5", func(*fleet) {}, "w5"},
		{"a unit that is down", "0 1 2", func(f *fleet) { f.down("w7.service", "failed") }, "w0 w1 w2"},
		{"the units of a GPU are stopped", "0 1 2", func(f *fleet) { f.down("w0.service", "inactive") }, "w1,w2"},
		{"a client of two GPUs starts once", every, func(f *fleet) { f.uses["w2.service"] = []partition.Address{"2", "6"} }, "w0,w1 w2,w6 w3,w4 w5,w7"},
		{"all GPUs are those of one client", "2 6", func(f *fleet) {
			f.uses["w2.service"] = []partition.Address{"2", "6"}
			f.down("w6.service", "inactive")
		}, "w2"},
		{"an observer", "0 1 2", func(f *fleet) { f.add("dcgm.service") }, "w0,w1,dcgm w2,dcgm"},
		{"no budget", every, func(f *fleet) { f.settings.Budgets = nil; f.add("free.service", "9") }, "w0,w1,w2,w3,w4,w5,w6,w7"},
		{"all active clients are concerned", "0", func(f *fleet) {
			for i := range 7 {
				f.down(fmt.Sprintf("w%d.service", i+1), "inactive")
			}
		}, "w0"},
		{"a failed run of dcm-apply.service", "0 1 2", func(f *fleet) {
			f.units[unitname.Apply] = systemd.Unit{Name: unitname.Apply, Load: "loaded", Active: "failed"}
		}, "w0,w1 w2"},
		{"the whole node, with room", every, func(f *fleet) { f.scope = nil; f.settings.Budgets[0].MaxDown = 8 }, "all"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			f := newFleet(t, tt.differs)
			tt.given(f)
			f.start()
			s := f.until("profile on the GPUs", phase(runstate.InSync))
			f.tick()
			if got := f.arounds(); got != tt.want {
				t.Errorf("rounds %q, want %q", got, tt.want)
			}
			if s.Progress != nil {
				t.Errorf("progress after the last round: %s, want none", s.Progress)
			}
		})
	}
}

// The state and the status line show how far the change is.
func TestRounds_Progress(t *testing.T) {
	f := newFleet(t, "0 1 2 4")
	f.settings.SettleTime = time.Hour
	f.start()
	s := f.until("the first round", phase(runstate.Applying))
	if s.Progress == nil || *s.Progress != (runstate.Progress{Done: 4, Total: 8}) || !slices.Equal(s.Change.Later, []partition.Address{"2", "4"}) {
		t.Errorf("during the first round: progress %v, change %+v; want 4 of 8, and GPUs 2 and 4 later", s.Progress, s.Change)
	}
	s = f.until("the end of the first round", phase(runstate.Rolling))
	if s.Progress == nil || *s.Progress != (runstate.Progress{Done: 6, Total: 8}) || s.Error != nil || s.Tries != 0 || time.Until(s.Retry) < 50*time.Minute {
		t.Errorf("after the first round: progress %v, error %v, tries %d, next round at %s; want 6 of 8, none, 0, in an hour", s.Progress, s.Error, s.Tries, s.Retry)
	}
	f.tick()
	if line := statusLine(s); !strings.HasPrefix(line, "Putting profile cpx on the GPUs in rounds, next round at ") || !strings.HasSuffix(line, " (6 of 8 GPUs)") {
		t.Errorf("status line %q", line)
	}
	if got := f.arounds(); got != "w0,w1" {
		t.Errorf("rounds %q, want the first one", got)
	}
}

// A round does not begin before the units of the last one have settled.
func TestRounds_Settle(t *testing.T) {
	f := newFleet(t, "0 1")
	f.settings.Budgets[0].MaxDown = 1
	f.settings.SettleTime = time.Hour
	f.young["w5.service"] = time.Minute
	f.start()
	s := f.until("a pause", phase(runstate.Rolling))
	if left := time.Until(s.Retry); left < 58*time.Minute || left > 59*time.Minute {
		t.Errorf("next round in %s, want 59m", left)
	}
	f.tick()
	if got := f.arounds(); got != "" {
		t.Errorf("rounds %q, want none", got)
	}
	f.set(func() { delete(f.young, "w5.service") })
	done := make(chan runstate.State, 1)
	f.requests <- Request{Asked: runstate.Asked{Why: "test"}, Done: done}
	f.until("a round", phase(runstate.Rolling))
	f.tick()
	if got := f.arounds(); got != "w0" || len(done) != 0 {
		t.Errorf("rounds %q, answers %d; want one, and no answer before the last round", got, len(done))
	}
}

// Units that are down for other reasons keep the next round from beginning, until they are up.
func TestRounds_Blocked(t *testing.T) {
	f := newFleet(t, "0 1 2")
	f.retry = Backoff{First: time.Hour, Most: time.Hour}
	f.wantedBy = "multi-user.target"
	f.down("w5.service", "failed")
	f.down("w7.service", "inactive")
	f.startedAgain()
	f.start()
	s := f.until("a blocked round", phase(runstate.Waiting))
	const want = "budget of w*.service: max-down is 2, and these units are down: w5.service (failed), w7.service (inactive, but multi-user.target wants it)"
	if s.Error == nil || s.Error.Text != want || !s.Error.Transient || s.Progress == nil || s.Progress.Done != 5 {
		t.Errorf("error %+v, progress %v; want %q, 5 of 8", s.Error, s.Progress, want)
	}
	f.set(func() { f.down("w5.service", "active") })
	f.unitEvent <- struct{}{}
	f.until("profile on the GPUs", phase(runstate.InSync))
	f.tick()
	if got := f.arounds(); got != "w0 w1 w2" {
		t.Errorf("rounds %q, want one unit at a time", got)
	}
}

// A client that never becomes ready counts as down. When two do, no further GPU changes.
func TestRounds_NeverReady(t *testing.T) {
	f := newFleet(t, "0 1 2 3")
	f.retry = Backoff{First: time.Hour, Most: time.Hour}
	change := f.run
	f.run = func(h *host) (systemd.Unit, *runstate.Run, error) {
		for unit := range f.saved.Change.Stopped {
			f.down(unit, "activating")
		}
		return change(h)
	}
	f.startedAgain()
	f.start()
	s := f.until("a blocked round", phase(runstate.Waiting))
	if got := f.arounds(); got != "w0,w1" || !strings.HasSuffix(s.Error.Text, "these units are down: w0.service (activating), w1.service (activating)") {
		t.Errorf("rounds %q, error %+v; want one round, and its units", got, s.Error)
	}
}

// A GPU that failed is retried, and no other GPU changes before it has succeeded.
func TestRounds_FailedGPU(t *testing.T) {
	f := newFleet(t, "2 3 4 5")
	tries := 0
	f.run = f.change(func(a partition.Address) bool {
		if a == "3" {
			tries++
		}
		return a == "3" && tries < 3
	})
	f.startedAgain()
	f.start()
	f.until("profile on the GPUs", phase(runstate.InSync))
	f.tick()
	if got := f.arounds(); got != "w2,w3 w3 w3 w4,w5" {
		t.Errorf("rounds %q, want two retries of w3 before the others", got)
	}
}

// A change that exceeds a budget even if all units are up is refused, unless it is requested.
func TestRounds_TooLarge(t *testing.T) {
	for _, tt := range []struct {
		name  string
		given func(f *fleet)
		want  string
	}{
		{"a change of the whole node", func(f *fleet) { f.scope = nil }, "budget of w*.service: the change concerns all GPUs and stops 8 of these units (max-down is 2)"},
		{"clients without known GPUs", func(f *fleet) { clear(f.uses) }, "budget of w*.service: a change of 3 stops 8 of these units (max-down is 2)"},
		{"GPUs that change together", func(f *fleet) { clear(f.uses); f.scope.Part = nil }, "budget of w*.service: a change of 3, 4 stops 8 of these units (max-down is 2)"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			f := newFleet(t, "3 4")
			tt.given(f)
			f.startedAgain()
			f.start()
			s := f.until("a refusal", phase(runstate.Stuck))
			if got := f.arounds(); s.Error.Text != tt.want || s.Error.Transient || got != "" {
				t.Errorf("error %+v, rounds %q; want %q", s.Error, got, tt.want)
			}
			f.command("dcm apply --ignore-budget", runstate.Selection{IgnoreBudget: true})
			f.until("profile on the GPUs", phase(runstate.InSync))
			f.tick()
			if got := f.arounds(); got != "all" {
				t.Errorf("rounds %q, want one run for all", got)
			}
		})
	}
}

// With --rolling a change is refused that cannot be made one GPU after another.
func TestRounds_RollingRefused(t *testing.T) {
	for _, given := range []func(f *fleet){func(f *fleet) { f.scope = nil }, func(f *fleet) { f.scope.Part = nil }} {
		f := newFleet(t, "")
		f.start()
		f.until("no change", phase(runstate.InSync))
		f.set(func() { f.differ("0 1"); given(f) })
		done := f.command("dcm apply --rolling", runstate.Selection{Rolling: true})
		if s := <-done; s.Phase != runstate.Stuck || !strings.Contains(s.Error.Text, "one GPU after another") || f.arounds() != "" {
			t.Errorf("answer %s, %+v, want a refusal", s.Phase, s.Error)
		}
	}
}

// With --rolling one GPU changes at a time, without a budget too. A restart of the daemon does not end that.
func TestRounds_Rolling(t *testing.T) {
	f := newFleet(t, "")
	f.settings.Budgets = nil
	f.start()
	f.until("no change", phase(runstate.InSync))
	f.set(func() { f.differ("0 1 2") })
	done := f.command("dcm apply --rolling", runstate.Selection{Rolling: true})
	if s := <-done; s.Phase != runstate.InSync {
		t.Errorf("answer %s, want that of the last round", s.Phase)
	}
	f.tick()
	if got := f.arounds(); got != "w0 w1 w2" {
		t.Errorf("rounds %q, want one unit in each", got)
	}
	f.set(func() { f.differ("3 4") })
	f.initial = runstate.State{Wish: f.settings.hash(), Phase: runstate.Rolling, Progress: &runstate.Progress{Done: 5, Total: 8}, Selection: &runstate.Selection{Profile: "cpx", Rolling: true}}
	f.stop()
	f.left()
	f.start()
	f.until("profile on the GPUs", phase(runstate.InSync))
	f.tick()
	if got := f.arounds(); got != "w3 w4" {
		t.Errorf("rounds after a restart of the daemon %q, want one unit in each", got)
	}
}

// A change that was requested with --rolling stays so when it has waited for a unit.
func TestRounds_RollingContinues(t *testing.T) {
	f := newFleet(t, "")
	f.settings.Budgets = nil
	f.retry = Backoff{First: time.Hour, Most: time.Hour}
	f.start()
	f.until("no change", phase(runstate.InSync))
	f.set(func() { f.differ("0 1 2"); f.down("w7.service", "failed") })
	done := f.command("dcm apply --rolling", runstate.Selection{Rolling: true})
	if s := <-done; s.Phase != runstate.Waiting || s.Error.Text != "one GPU changes at a time, and these clients are down: w7.service (failed)" {
		t.Errorf("answer %s, %+v, want that it waits for w7", s.Phase, s.Error)
	}
	f.set(func() { f.down("w7.service", "active") })
	f.unitEvent <- struct{}{}
	f.until("profile on the GPUs", phase(runstate.InSync))
	f.tick()
	if got := f.arounds(); got != "w0 w1 w2" {
		t.Errorf("rounds %q, want one unit in each", got)
	}
}

// The daemon and the run were killed before the partitions were published. The units of that round are
// restarted before the next round.
func TestRounds_Unpublished(t *testing.T) {
	f := newFleet(t, "2 3")
	f.unpublished = true
	f.initial = runstate.State{Tries: 1, Wish: f.settings.hash(), Phase: runstate.Applying, Change: &runstate.Change{
		GPUs: []partition.Address{"0", "1"}, Stopped: map[string]string{"w0.service": "x", "w1.service": "x"}}}
	change := f.run
	f.run = func(h *host) (systemd.Unit, *runstate.Run, error) { f.unpublished = false; return change(h) }
	f.start()
	f.until("profile on the GPUs", phase(runstate.InSync))
	f.tick()
	if got := f.arounds(); got != "w0,w1 w2,w3" {
		t.Errorf("rounds %q, want that of the killed run first", got)
	}
}

// A plan shows the rounds, and why one of them would wait.
func TestForesee_Rounds(t *testing.T) {
	for _, tt := range []struct {
		name, rounds, waits, refused string
		given                        func(f *fleet)
	}{
		{"three rounds", "0,1 2,3 4", "", "", func(f *fleet) { f.young["w7.service"] = 0 }},
		{"a unit is down", "0 1 2 3 4", "", "", func(f *fleet) { f.down("w7.service", "failed") }},
		{"the budget is used up", "4", "w4.service (failed), w7.service (failed)", "", func(f *fleet) {
			f.down("w7.service", "failed")
			f.down("w4.service", "failed")
		}},
		{"a change that is too large", "", "", "stops 8 of these units", func(f *fleet) { clear(f.uses) }},
		{"all GPUs together", "", "", "", func(f *fleet) { f.scope = nil; f.settings.Budgets[0].MaxDown = 8 }},
	} {
		f := newFleet(t, "0 1 2 3 4")
		tt.given(f)
		got, err := Foresee(t.Context(), f.pid1(), f.settings, func([]string) []string { return nil }, f.scope, nil)
		if err != nil {
			t.Fatal(err)
		}
		var rounds []string
		for _, r := range got.Rounds {
			rounds = append(rounds, join(r.GPUs))
		}
		said := func(e *runstate.Error) string {
			if e == nil {
				return ""
			}
			return e.Text
		}
		if text := strings.ReplaceAll(strings.Join(rounds, " "), ", ", ","); text != tt.rounds || !strings.HasSuffix(said(got.Waits), tt.waits) || (tt.waits == "") != (got.Waits == nil) ||
			!strings.Contains(said(got.Refused), tt.refused) || (tt.refused == "") != (got.Refused == nil) {
			t.Errorf("%s: rounds %q, waits %q, refused %q; want %q, %q, %q", tt.name, text, said(got.Waits), said(got.Refused), tt.rounds, tt.waits, tt.refused)
		}
	}
}
