package dropins

import (
	"context"
	"dcm/internal/text"
	"fmt"
	"io"
	"log/slog"
	"reflect"
	"sync/atomic"
	"time"
)

// PID1 is a connection to PID 1, which answers calls after a reload in progress.
type PID1 struct {
	Reloader
	Units UnitController
	io.Closer
}

// Reloader reloads PID 1. [systemd.Manager] is one.
type Reloader interface {
	// Reloads returns a channel that gets a value when PID 1 has loaded the units again, or
	// may have.
	Reloads(ctx context.Context) (reloaded <-chan struct{}, stop func(), err error)
	// LoadedAt returns when PID 1 last loaded the units, in µs of CLOCK_MONOTONIC.
	LoadedAt(ctx context.Context) (uint64, error)
	Reload(ctx context.Context) error
}

// UnitController reads and changes the units that drop-ins confine.
type UnitController interface {
	// Confined returns the active units that drop-ins confine, without units that have a job.
	Confined(ctx context.Context) ([]Unit, error)
	// Realize makes PID 1 apply the loaded properties of the active units in a slice to
	// their cgroups.
	Realize(ctx context.Context, slice string) error
	// TryRestart queues the restart of a unit if that is active.
	TryRestart(ctx context.Context, unit string) error
}

// Unit is a unit that is confined by its drop-in.
type Unit struct {
	Name       string
	Invocation string
	Started    uint64   // when its present start began, in µs of CLOCK_MONOTONIC
	Slice      string   // that PID 1 has loaded for it
	Loaded     []string // how what PID 1 has loaded for it differs from what confines it
	Running    string   // why its processes run without that; "" if they do not, as far as PID 1 knows
	Keep       bool     // it is not to be restarted
}

// Keeper has PID 1 load the drop-ins again where they are missing or differ. All fields but
// Limits are required.
type Keeper struct {
	Dial    func(context.Context) (PID1, error)
	Differ  func() ([]string, error) // the units whose drop-ins are missing or differ
	Busy    func() (bool, error)     // units are being stopped and started by a run
	Changed func()                   // called when Lost, or what Units says, has changed
	Log     *slog.Logger
	Limits  Limits

	state    state
	tries    int               // reloads requested since the drop-ins were lost
	due      time.Time         // in state [retrying]: when the next is requested
	suspects map[string]string // unit → invocation that began while its drop-in was missing
	recheck  bool              // a unit is to be restarted, and was not yet
	unheld   map[string]bool   // units that were up when PID 1 had loaded nothing that confines them
	shown    any
	lost     atomic.Pointer[Loss]
}

// Loss is that PID 1 has not loaded the drop-ins of units.
type Loss struct {
	Units []string
	Why   string    // the reload failed; "" if it did not
	Tries int       // reloads requested in vain
	Next  time.Time // of the next; zero if no more is requested
}

// Limits are the keeper's; the zero value of each means the default.
type Limits struct {
	After func(try int) time.Duration // the delay before that try, from 2
	Tries int                         // reloads for one loss
	Busy  time.Duration               // the delay after which a run is expected to be over
}

// state is what the keeper knows of the drop-ins.
type state int

const (
	retrying state = iota // they differ; one more reload is requested when it is due
	intact                // PID 1 has them
	givenUp               // they differ, and no reload is requested any more
)

const (
	mostTries    = 6
	firstDelay   = 5 * time.Second
	busyInterval = 5 * time.Second
	redialDelay  = 5 * time.Second
)

// Lost returns what PID 1 has not loaded; nil if nothing is known to be lost.
func (k *Keeper) Lost() *Loss { return k.lost.Load() }

// Run keeps the drop-ins until ctx ends.
//
// The first look requests no reload: the daemon that starts requests one by itself.
func (k *Keeper) Run(ctx context.Context) {
	k.defaults()
	k.due = time.Now().Add(k.Limits.After(1))
	logged := ""
	for ctx.Err() == nil {
		err := k.serve(ctx)
		if ctx.Err() != nil {
			return
		}
		if text := err.Error(); text != logged { // not at each attempt
			k.Log.Warn("cannot watch whether systemd loads dcm's drop-ins", "error", text)
			logged = text
		}
		select {
		case <-ctx.Done():
		case <-time.After(redialDelay):
		}
	}
}

func (k *Keeper) defaults() {
	if k.Limits.After == nil {
		k.Limits.After = func(try int) time.Duration { return firstDelay << (try - 1) }
	}
	if k.Limits.Tries == 0 {
		k.Limits.Tries = mostTries
	}
	if k.Limits.Busy == 0 {
		k.Limits.Busy = busyInterval
	}
	k.suspects, k.unheld = make(map[string]string), make(map[string]bool)
}

// serve works on one connection until that is of no use any more.
func (k *Keeper) serve(ctx context.Context) error {
	pid1, err := k.Dial(ctx)
	if err != nil {
		return err
	}
	defer pid1.Close()
	reloaded, stop, err := pid1.Reloads(ctx)
	if err != nil {
		return err
	}
	defer stop()
	for {
		if err := k.check(ctx, pid1); err != nil {
			return err
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-reloaded:
		case <-k.next():
		}
	}
}

// next is when to check without a reload; never if nothing is to be done.
func (k *Keeper) next() <-chan time.Time {
	switch {
	case k.state == retrying:
		return time.After(time.Until(k.due))
	case k.recheck:
		return time.After(k.Limits.Busy)
	}
	return nil
}

// check compares, and requests a reload if one is due. It does not matter whose reload it
// follows, so the signal of one of its own leads to nothing: in state intact nothing
// differs after it, and in the other states a reload changes nothing but by being good.
func (k *Keeper) check(ctx context.Context, pid1 PID1) error {
	differ, at, err := k.look(ctx, pid1)
	if err != nil {
		return err
	}
	if len(differ) > 0 && k.mayReload() {
		k.suspect(ctx, pid1, at)
		if differ, err = k.reload(ctx, pid1, differ); err != nil {
			return err
		}
	}
	k.settle(differ)
	units, err := k.units(ctx, pid1)
	if err != nil {
		return err
	}
	if now := []any{differ, k.state, units}; !reflect.DeepEqual(now, k.shown) {
		k.shown = now
		k.Changed()
	}
	return nil
}

// look compares what is on disk between two answers of PID 1: in a reload it is half
// written, and PID 1 answers after it.
func (k *Keeper) look(ctx context.Context, pid1 PID1) (differ []string, at uint64, err error) {
	if at, err = pid1.LoadedAt(ctx); err != nil {
		return nil, 0, err
	}
	for {
		if differ, err = k.Differ(); err != nil {
			return nil, 0, err
		}
		again, err := pid1.LoadedAt(ctx)
		if err != nil || again == at {
			return differ, at, err
		}
		at = again
	}
}

// mayReload tells whether a reload is to be requested for drop-ins that differ: at once for
// a new loss, and with a back-off where that did not help. A reload of somebody else that
// did not help either is no reason for another one.
func (k *Keeper) mayReload() bool {
	return k.state == intact || k.state == retrying && !time.Now().Before(k.due)
}

// suspect notes the units that are up while what PID 1 has loaded does not confine them, and
// those of them that it has started with that.
func (k *Keeper) suspect(ctx context.Context, pid1 PID1, at uint64) {
	units, err := pid1.Units.Confined(ctx)
	if err != nil {
		k.Log.Warn("cannot determine which units were started without their confinement", "error", err)
		return
	}
	for _, u := range units {
		if len(u.Loaded) == 0 || u.Keep {
			continue
		}
		k.unheld[u.Name] = true
		if u.Started > at {
			k.suspects[u.Name] = u.Invocation
		}
	}
}

func (k *Keeper) reload(ctx context.Context, pid1 PID1, differ []string) ([]string, error) {
	k.tries++
	k.Log.Warn(fmt.Sprintf("systemd has not loaded dcm's drop-ins for %s: requesting a daemon-reload", text.Few(differ)), "units", differ, "try", k.tries)
	k.state, k.due = retrying, time.Now().Add(k.Limits.After(k.tries))
	if err := pid1.Reload(ctx); err != nil {
		k.lost.Store(&Loss{Why: err.Error()})
		return differ, ctx.Err()
	}
	k.lost.Store(nil)
	differ, _, err := k.look(ctx, pid1)
	return differ, err
}

// settle enters the state that the comparison leads to.
func (k *Keeper) settle(differ []string) {
	if len(differ) == 0 {
		if k.tries > 0 {
			k.Log.Info("systemd has loaded dcm's drop-ins again", "tries", k.tries)
		}
		k.state, k.tries = intact, 0
		k.lost.Store(nil)
		return
	}
	if k.state == retrying && k.tries >= k.Limits.Tries {
		k.state = givenUp
		k.Log.Error(fmt.Sprintf("systemd does not load dcm's drop-ins for %s: no daemon-reload is requested any more", text.Few(differ)), "units", differ, "tries", k.tries)
	}
	if k.tries == 0 {
		return // the daemon that starts is to request the first
	}
	loss := Loss{Units: differ, Tries: k.tries}
	if before := k.lost.Load(); before != nil {
		loss.Why = before.Why
	}
	if k.state == retrying {
		loss.Next = k.due
	}
	k.lost.Store(&loss)
}

// units restarts what was started without its confinement and would be started with it
// now, has the others held to it again, and returns how each unit is.
//
// That PID 1 has loaded the right properties for a unit does not prove that its processes
// are held to them. systemd 252 applies a device list to the cgroup in each reload; 257
// does so when the unit is started, and when the unit or another one in its slice is
// realized: it removes the list of a running unit if another unit of the slice that is
// loaded for it is started while the drop-in is missing, and a good reload does not bring
// it back. So a unit that was up meanwhile is realized once its drop-in is loaded.
//
// That does not help a unit that was started without the drop-in. Two facts tell how a unit
// was started. Its cgroup is that of the slice that was loaded then, for as long as it is
// active; the slice and the device list are in the same drop-in, so a unit in its slice was
// started with the list. Where the unit's own file names the slice, a start since PID 1
// loaded the units without the drop-in tells the same (see suspect).
func (k *Keeper) units(ctx context.Context, pid1 PID1) ([]Unit, error) {
	units, err := pid1.Units.Confined(ctx)
	if err != nil {
		return nil, err
	}
	k.recheck = false
	for _, u := range units {
		switch {
		case u.Keep:
			continue
		case len(u.Loaded) > 0:
			k.unheld[u.Name] = true
			continue
		case k.state != intact:
			continue
		}
		why := u.Running
		if why == "" && k.suspects[u.Name] == u.Invocation {
			why = "it was started while systemd had not loaded its drop-in"
		}
		if why == "" && !k.unheld[u.Name] {
			continue
		}
		if busy, err := k.Busy(); busy || err != nil {
			k.recheck = true
			continue
		}
		delete(k.unheld, u.Name)
		if why == "" {
			if err := pid1.Units.Realize(ctx, u.Slice); err != nil {
				k.Log.Error(err.Error(), "unit", u.Name)
			}
			continue
		}
		k.Log.Warn(fmt.Sprintf("restarting %s: it was started without its confinement (%s)", u.Name, why), "unit", u.Name, "reason", why)
		if err := pid1.Units.TryRestart(ctx, u.Name); err != nil {
			k.Log.Error(err.Error(), "unit", u.Name)
			k.recheck = true
			continue
		}
		delete(k.suspects, u.Name)
	}
	return units, nil
}

// String says what PID 1 has not loaded.
func (l Loss) String() string {
	what := "systemd has not loaded dcm's drop-ins for " + text.Few(l.Units)
	if l.Why != "" {
		what += ": " + l.Why
	}
	if l.Next.IsZero() {
		return fmt.Sprintf("%s; after %d daemon-reloads in vain dcm requests no more", what, l.Tries)
	}
	return fmt.Sprintf("%s; dcm requests the next daemon-reload at %s", what, l.Next.Local().Format(time.TimeOnly))
}
