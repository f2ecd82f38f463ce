package dropins

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"reflect"
	"sync/atomic"
	"time"

	"dcm/internal/text"
)

// PID1 is a connection to PID 1. During a daemon-reload PID 1 does not answer calls.
type PID1 struct {
	Reloader
	Units UnitController
	io.Closer
}

// Reloader reloads PID 1. [systemd.Manager] is one.
type Reloader interface {
	// Reloads returns a channel that receives when PID 1 has loaded the units again, or may have
	// done so.
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
	// TryRestart queues the restart of a unit if the unit is active.
	TryRestart(ctx context.Context, unit string) error
}

// Unit is a unit that is confined by its drop-in.
type Unit struct {
	Name       string
	Invocation string
	Started    uint64   // when its present run began, in µs of CLOCK_MONOTONIC
	Slice      string   // its Slice= as loaded by PID 1
	Loaded     []string // differences between its loaded properties and the wanted confinement
	Running    string   // why PID 1 does not confine its processes; "" if it does
	Keep       bool     // never restart it
}

// Keeper reloads PID 1 if drop-ins are missing or differ. All fields except Limits are required.
type Keeper struct {
	Dial    func(context.Context) (PID1, error)
	Differ  func() ([]string, error) // returns the units whose drop-ins are missing or differ
	Busy    func() (bool, error)     // reports whether a run is stopping and starting units
	Changed func()                   // called after a change of Lost, or of the confined units
	Log     *slog.Logger
	Limits  Limits

	state    state
	tries    int               // number of reloads since the drop-ins were lost
	due      time.Time         // in state [retrying]: the time of the next reload
	suspects map[string]string // invocations that began while the unit's drop-in was missing, by unit
	recheck  bool              // a unit still has to be restarted
	unheld   map[string]bool   // units that were active while their drop-in was not loaded
	shown    any               // the state at the last call of Changed
	lost     atomic.Pointer[Loss]
}

// Loss describes drop-ins that PID 1 has not loaded.
type Loss struct {
	Units []string
	Why   string    // the error of the last reload; "" if it succeeded
	Tries int       // number of reloads that did not help
	Next  time.Time // time of the next reload; zero if there is none
}

// Limits are the limits and delays of a keeper. A zero value means the default.
type Limits struct {
	After func(try int) time.Duration // returns the delay after a reload before the next one
	Tries int                         // maximum number of reloads
	Busy  time.Duration               // delay between checks during a run
}

// state is the state of the drop-ins at the last check.
type state int

const (
	retrying state = iota // they differ; the next reload is scheduled
	intact                // PID 1 has loaded them
	givenUp               // they differ, and no more reloads are requested
)

const (
	mostTries    = 6
	firstDelay   = 5 * time.Second
	busyInterval = 5 * time.Second
	redialDelay  = 5 * time.Second
)

// Lost returns the drop-ins that PID 1 has not loaded; nil if there are none.
func (k *Keeper) Lost() *Loss { return k.lost.Load() }

// Run keeps the drop-ins loaded until ctx ends. Its first check requests no reload, because the
// daemon requests one when it starts.
func (k *Keeper) Run(ctx context.Context) {
	k.defaults()
	k.due = time.Now().Add(k.Limits.After(1))
	logged := ""
	for ctx.Err() == nil {
		err := k.serve(ctx)
		if ctx.Err() != nil {
			return
		}
		if text := err.Error(); text != logged { // log an error only once
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

// serve checks the drop-ins with one connection to PID 1 until the connection fails.
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

// next returns a channel that receives at the time of the next check; nil if the next check follows
// a reload.
func (k *Keeper) next() <-chan time.Time {
	switch {
	case k.state == retrying:
		return time.After(time.Until(k.due))
	case k.recheck:
		return time.After(k.Limits.Busy)
	}
	return nil
}

// check compares the drop-ins and requests a reload if one is due. After the keeper's own reload a
// signal arrives, too, but it causes no further reload: either nothing differs now, or mayReload
// returns false until the delay is over.
func (k *Keeper) check(ctx context.Context, pid1 PID1) error {
	differ, at, err := k.compare(ctx, pid1)
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

// compare returns the units whose drop-ins differ, and when PID 1 last loaded the units. During a
// reload the files are incomplete. So compare repeats the comparison until PID 1 reports the same time
// of loading before and after it.
func (k *Keeper) compare(ctx context.Context, pid1 PID1) (differ []string, at uint64, err error) {
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

// mayReload reports whether to request a reload for drop-ins that differ: the first one immediately,
// further ones after increasing delays.
func (k *Keeper) mayReload() bool {
	return k.state == intact || k.state == retrying && !time.Now().Before(k.due)
}

// suspect records the units that are active although PID 1 has not loaded their drop-ins, and which of
// them were started after PID 1 loaded the units.
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
	differ, _, err := k.compare(ctx, pid1)
	return differ, err
}

// settle changes the state after a comparison.
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
		k.Log.Error(fmt.Sprintf("systemd does not load dcm's drop-ins for %s: no more daemon-reloads are requested", text.Few(differ)), "units", differ, "tries", k.tries)
	}
	if k.tries == 0 {
		return // a starting daemon requests the first reload
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

// units repairs units whose drop-in is loaded again. It restarts those that were started without the
// drop-in, and applies the device lists of the others to their cgroups again. It returns all units.
//
// After a reload the loaded properties are correct, but the cgroup of a running unit may not be.
// systemd 252 applies the device list to the cgroup in each reload. systemd 257 applies it when the
// unit is started, and when the unit or another unit in its slice is realized. So if another unit of
// the slice starts while the drop-in is missing, a running unit loses its list, and the next reload
// does not restore it. Therefore units that were active meanwhile are realized again.
//
// A unit that was started without the drop-in runs in another slice, since slice and device list are
// in the same drop-in. If the unit's own file sets the slice, the time of its start shows the same,
// see suspect.
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
			why = "started while systemd had not loaded its drop-in"
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
		k.Log.Warn(fmt.Sprintf("restarting %s: started without its confinement (%s)", u.Name, why), "unit", u.Name, "reason", why)
		if err := pid1.Units.TryRestart(ctx, u.Name); err != nil {
			k.Log.Error(err.Error(), "unit", u.Name)
			k.recheck = true
			continue
		}
		delete(k.suspects, u.Name)
	}
	return units, nil
}

// String describes the loss.
func (l Loss) String() string {
	what := "systemd has not loaded dcm's drop-ins for " + text.Few(l.Units)
	if l.Why != "" {
		what += ": " + l.Why
	}
	if l.Next.IsZero() {
		return fmt.Sprintf("%s; %d daemon-reloads did not help, no more are requested", what, l.Tries)
	}
	return fmt.Sprintf("%s; the next daemon-reload is at %s", what, l.Next.Local().Format(time.TimeOnly))
}
