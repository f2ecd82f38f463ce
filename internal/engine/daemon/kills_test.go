package daemon

import (
	"fmt"
	"strings"
	"testing"

	"dcm/internal/engine/runstate"
	"dcm/internal/linux/systemd"
)

// newKiller returns a host on which GPUs 3, 4 and 5 differ from the profile.
func newKiller(t *testing.T, given func(*requiring)) *killer {
	k := &killer{requiring: newRequiring(t, "3 4 5")}
	k.wantedBy = "multi-user.target"
	given(k.requiring)
	k.prepare = k.attach
	return k
}

// change kills the daemon at its nth call, and starts the next one, which completes the change. It returns
// the calls of the first daemon.
func (k *killer) change(n int) []string {
	k.at = n
	k.startedAgain()
	ended := k.start()
	reached := func(s runstate.State) bool { return s.Phase == runstate.InSync }
	if n == 0 {
		k.until("profile on the GPUs", reached)
		k.tick()
		k.mu.Lock()
		defer k.mu.Unlock()
		return append([]string{}, k.calls...)
	}
	<-ended
	k.jobs.Lock() // its jobs have ended too
	k.mu.Lock()
	calls := k.calls
	k.at, k.dead, k.calls = 0, false, nil
	k.mu.Unlock()
	k.jobs.Unlock()
	k.left()
	k.set(func() { k.initial = k.saved })
	k.start()
	k.until("profile on the GPUs", reached)
	k.tick()
	return calls
}

// Wherever the daemon is killed, also with the run, the next one completes the change: all GPUs have the
// profile, all clients are up and none is withheld, and those of other GPUs were not restarted.
func TestKilledAtEachCall(t *testing.T) {
	for name, given := range map[string]func(*requiring){
		"all together": func(x *requiring) { x.settings.Require = false },
		"require":      func(*requiring) {},
		"require, in rounds": func(x *requiring) {
			x.settings.Budgets = []Budget{{Units: []string{"w*.service"}, MaxDown: 2}}
		},
		"require, the run is killed": func(x *requiring) { x.killed = true },
		"require, killed before it has published": func(x *requiring) {
			x.killed = true
			run := x.run
			x.run = func(h *host) (systemd.Unit, *runstate.Run, error) {
				x.unpublished = x.killed
				return run(h)
			}
		},
		"require, a GPU fails once": func(x *requiring) {
			x.fails["4"] = true
			run := x.run
			x.run = func(h *host) (systemd.Unit, *runstate.Run, error) {
				u, r, err := run(h)
				clear(x.fails)
				return u, r, err
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			calls := newKiller(t, given).change(0)
			if !strings.Contains(strings.Join(calls, ","), "restart w4.service") {
				t.Fatalf("calls: want a restart of w4, got %q", calls)
			}
			for n := range calls {
				k := newKiller(t, given)
				at := k.change(n + 1)
				when := fmt.Sprintf("killed before call %d, %s", n+1, at[min(n, len(at)-1)])
				k.isDown(when, "")
				k.set(func() {
					for gpu := range k.differs {
						t.Errorf("%s: GPU %s differs from the profile", when, gpu)
					}
					for _, w := range "01267" {
						unit := "w" + string(w) + ".service"
						if k.units[unit].Invocation != "1"+unit {
							t.Errorf("%s: %s was restarted", when, unit)
						}
					}
				})
				k.stop()
			}
			t.Logf("%d calls", len(calls))
		})
	}
}
