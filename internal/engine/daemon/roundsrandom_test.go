package daemon

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"dcm/internal/engine/runstate"
	"dcm/internal/gpu/partition"
	"dcm/internal/linux/systemd"
	"dcm/internal/linux/unitname"
)

// trial is a fleet with random faults. It checks each round when PID 1 stops its units.
type trial struct {
	*fleet
	*rand.Rand
	faults bool
	rounds int
	failed []partition.Address // of the last round, if it failed
	seed   uint64
}

// begin checks the units that a round stops.
func (x *trial) begin(c *runstate.Change) {
	down, stopped := 0, 0
	for i := range 8 {
		unit := fmt.Sprintf("w%d.service", i)
		_, stops := c.Stopped[unit]
		if stops && x.units[unit].Active == "active" {
			stopped++
		} else if x.units[unit].Active != "active" {
			down++
		}
	}
	if stopped > 0 && down+stopped > 2 {
		x.t.Errorf("seed %d: a round stops %d units while %d are down, want at most 2", x.seed, stopped, down)
	}
	if x.failed != nil && slices.ContainsFunc(c.GPUs, func(a partition.Address) bool { return !slices.Contains(x.failed, a) }) {
		x.t.Errorf("seed %d: GPUs %v change after GPUs %v failed", x.seed, c.GPUs, x.failed)
	}
	x.rounds++
}

// round is a run that may fail, be killed, or leave units down.
func (x *trial) round(h *host) (systemd.Unit, *runstate.Run, error) {
	c := x.saved.Change
	if c == nil {
		x.t.Errorf("seed %d: a run for all GPUs, want rounds only", x.seed)
		return x.change(func(partition.Address) bool { return false })(h)
	}
	x.begin(c)
	x.unpublished = false
	x.failed = nil
	fails := x.faults && x.IntN(8) == 0
	bad := c.GPUs[x.IntN(len(c.GPUs))]
	unit, run, err := x.change(func(a partition.Address) bool { return fails && a == bad })(h)
	if fails && x.scope != nil && slices.Contains(x.scope.GPUs, bad) {
		x.failed = []partition.Address{bad}
	}
	if x.faults && !fails && x.IntN(10) == 0 { // killed before it published the partitions
		x.unpublished = true
		unit = systemd.Unit{Name: unitname.Change, Active: "failed", Result: "signal", Invocation: "1"}
		run = &runstate.Run{ID: "1", Profile: run.Profile, Result: runstate.Running}
	}
	for i := range 8 {
		unit := fmt.Sprintf("w%d.service", i)
		if _, stopped := c.Stopped[unit]; x.faults && (stopped && x.IntN(10) == 0 || x.IntN(60) == 0) {
			x.down(unit, []string{"failed", "activating", "inactive"}[x.IntN(3)])
		}
	}
	return unit, run, err
}

// repair starts one unit that is down.
func (x *trial) repair() {
	for _, i := range x.Perm(8) {
		unit := fmt.Sprintf("w%d.service", i)
		if x.units[unit].Active != "active" {
			x.down(unit, "active")
			return
		}
	}
}

// A budget of two of eight units holds for random changes, also with GPUs that fail, runs and daemons that
// are killed, units that do not start, and edits during a change.
func TestRounds_Random(t *testing.T) {
	const hosts, changes = 100, 10
	seed := rand.Uint64()
	rounds := 0
	for n := range uint64(hosts) {
		x := &trial{fleet: newFleet(t, ""), Rand: rand.New(rand.NewPCG(seed, n)), faults: n%4 > 0, seed: seed}
		x.wantedBy, x.fleet.run = "multi-user.target", x.round
		if x.IntN(3) == 0 { // two units of two GPUs each
			x.uses["w2.service"], x.uses["w5.service"] = []partition.Address{"2", "6"}, []partition.Address{"5", "0"}
		}
		ended := x.start()
		x.until("no change", phase(runstate.InSync))
		for change := range changes {
			ended = x.edit(change, ended)
			x.finish()
		}
		rounds += x.rounds
		x.stop()
		<-ended
	}
	t.Logf("seed %d: %d changes in %d rounds", seed, hosts*changes, rounds)
}

// edit selects another profile, and may kill the daemon.
func (x *trial) edit(n int, ended <-chan error) <-chan error {
	kill := false
	x.set(func() {
		kill = x.faults && x.IntN(4) == 0
		for gpu := range 8 {
			if x.IntN(2) == 0 {
				x.differs[partition.Address(fmt.Sprint(gpu))] = true
			}
		}
		x.failed = nil
		x.settings.Profile.Name = fmt.Sprintf("cpx%d", n)
		x.observe()
	})
	x.changed <- struct{}{}
	if !kill {
		return ended
	}
	x.until("a begun change", func(s runstate.State) bool { return s.Profile == x.settings.Profile.Name })
	x.stop()
	<-ended
	x.set(func() { x.startedAgain(); x.initial = x.saved })
	x.left()
	return x.start()
}

// finish waits for the end of a change, and repairs units when the change waits for them.
func (x *trial) finish() {
	x.until("profile on the GPUs", func(s runstate.State) bool {
		if s.Phase == runstate.Waiting {
			x.set(x.repair)
		}
		return s.Phase == runstate.InSync && s.Profile == x.settings.Profile.Name
	})
}

// Many units of one budget, with durations: the next round begins when the units have settled, not before.
func TestRounds_RandomSettle(t *testing.T) {
	seed := rand.Uint64()
	r := rand.New(rand.NewPCG(seed, 0))
	for range 2000 {
		settle := time.Duration(1+r.IntN(60)) * time.Second
		s := selection{budgets: []Budget{{Units: []string{"w*"}, MaxDown: 1}}, down: make(map[string]string), parts: worked("0:w0 1:w1")}
		now := availability{settles: make(map[string]time.Duration)}
		least := time.Duration(0)
		stuck := false
		for i := range 1 + r.IntN(3) {
			unit := fmt.Sprint("w", 4+i)
			s.down[unit] = "down"
			if left := time.Duration(1+r.IntN(60)) * time.Second; r.IntN(4) > 0 {
				if now.settles[unit] = left; least == 0 || left < least {
					least = left
				}
			} else {
				stuck = true
			}
		}
		pause, waits := limits{budgets: s.budgets, settle: settle}.why(s, now)
		if stuck != (waits != nil) || !stuck && pause != least || stuck && !strings.Contains(waits.Text, "are down") {
			t.Fatalf("seed %d: pause %s, waits %v for %v, settling %v; want a pause of %s, or units that are down: %t", seed, pause, waits, s.down, now.settles, least, stuck)
		}
	}
}
