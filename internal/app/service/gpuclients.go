package service

import (
	"context"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"time"

	"dcm/internal/engine/runstate"
	"dcm/internal/gpu"
	"dcm/internal/gpu/partition"
)

// Intervals between two scans while a client is to open a GPU again, or has none. They double up to their maximum.
const (
	firstGPUClientInterval = time.Second
	maxAwaitedInterval     = 2 * time.Second // while a command may wait
	maxGPUClientInterval   = time.Minute
)

// clientRules are what the configuration says of clients that have a GPU open.
type clientRules struct {
	settle   time.Duration          // how long a client may take to open a GPU after its start
	expected func(unit string) bool // reports whether a client has a GPU open whenever it runs
}

// clientScan is what systemd and a scan of the processes show.
type clientScan struct {
	open    map[string][]partition.Address // the GPUs that a unit has open
	unknown map[string]bool                // units with a process that could not be inspected
	units   map[string]runstate.ClientUse  // the states of the units that were asked for
}

// clientWatch finds clients that had a GPU open before a change, and have none open after it. The scan before the
// change is the daemon's own. After the change it scans once at the end of settle-time, and earlier only while a
// client is to open a GPU again. It scans again while a client has none, and when that client is restarted.
type clientWatch struct {
	rules   func() clientRules
	scan    func(ctx context.Context, units []string) (clientScan, error)
	await   func(ctx context.Context, units []string) error // returns when the state of a unit has changed
	write   func(runstate.GPUClients) error
	changed func() // after a change of the list
	log     *slog.Logger
	nudged  chan struct{} // of 1

	mu      sync.Mutex
	list    runstate.GPUClients
	pending []string  // units that dcm has to start
	rest    bool      // no run is in progress
	end     time.Time // the scan at the end of settle-time; zero if none is due
	tries   int       // scans since the last change
	warned  string
}

// found records which clients have a GPU open before a change.
func (w *clientWatch) found(u gpu.Usage, devices []gpu.Device) {
	rules, now := w.rules(), time.Now()
	scan := clientScan{open: openGPUs(u, devices)}
	w.mu.Lock()
	defer w.mu.Unlock()
	var list []runstate.GPUClient
	for _, c := range w.list.Clients {
		if c.State != runstate.GPUOpen && scan.open[c.Unit] == nil {
			list = append(list, c) // an earlier run has stopped it
		}
	}
	w.publish(withOpen(list, scan, rules, now))
}

// saved follows the daemon's state: a run stops clients, and after it they are to open their GPUs again.
func (w *clientWatch) saved(s runstate.State) {
	w.mu.Lock()
	defer w.mu.Unlock()
	rest := isAtRest(s.Phase)
	w.pending = s.Pending.Units()
	if s.Phase == runstate.Applying {
		w.publish(w.list.Restarted(func(string) bool { return true }).Clients)
	}
	if rest && !w.rest {
		w.end, w.tries = time.Now().Add(w.rules().settle), 0
		nudge(w.nudged)
	}
	w.rest = rest
}

func nudge(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}

// run scans until ctx ends.
func (w *clientWatch) run(ctx context.Context) {
	for ctx.Err() == nil {
		var again <-chan time.Time
		if delay := w.look(ctx, time.Now()); delay > 0 {
			again = time.After(delay)
		}
		waiting, stop := context.WithCancel(ctx)
		w.awaitRestart(waiting)
		select {
		case <-w.nudged:
		case <-again:
		case <-ctx.Done():
		}
		stop()
	}
}

// awaitRestart requests a scan when the state of a client without its GPU changes.
func (w *clientWatch) awaitRestart(ctx context.Context) {
	w.mu.Lock()
	var units []string
	for _, c := range w.list.Clients {
		if c.State == runstate.NoGPU {
			units = append(units, c.Unit)
		}
	}
	w.mu.Unlock()
	if len(units) == 0 {
		return
	}
	go func() {
		if w.await(ctx, units) == nil {
			w.mu.Lock()
			w.tries = 0
			w.mu.Unlock()
			nudge(w.nudged)
		}
	}()
}

// look scans if a scan is due. It returns after what time the next one is, 0 for none.
func (w *clientWatch) look(ctx context.Context, now time.Time) time.Duration {
	w.mu.Lock()
	list, pending, rest, end := w.list, w.pending, w.rest, w.end
	w.mu.Unlock()
	watching := list.Has(runstate.GPUAwaited, runstate.NoGPU)
	switch {
	case !rest, !watching && end.IsZero():
		return 0
	case !watching && now.Before(end):
		return end.Sub(now)
	}
	units := make([]string, len(list.Clients))
	for i, c := range list.Clients {
		units[i] = c.Unit
	}
	scan, err := w.scan(ctx, units)
	w.mu.Lock()
	defer w.mu.Unlock()
	w.tries++
	delay := min(firstGPUClientInterval<<min(w.tries-1, 10), maxGPUClientInterval)
	switch {
	case !w.rest: // a run has begun
		return 0
	case err != nil:
		w.warn(ctx, err)
		return delay
	}
	w.warned = ""
	rules := w.rules()
	next, soonest := after(list.Clients, scan, pending, rules, now)
	w.publish(next)
	if !now.Before(w.end) {
		w.end = time.Time{}
	}
	switch {
	case w.list.Has(runstate.GPUAwaited):
		return min(delay, soonest, maxAwaitedInterval)
	case w.list.Has(runstate.NoGPU):
		return delay
	}
	return max(time.Until(w.end), 0)
}

func (w *clientWatch) warn(ctx context.Context, err error) {
	if text := err.Error(); text != w.warned && ctx.Err() == nil {
		w.warned = text
		w.log.Warn("cannot check which clients have a GPU open: " + text)
	}
}

// after returns the clients after a scan, and when the first of them is to have a GPU open.
func after(list []runstate.GPUClient, scan clientScan, pending []string, rules clientRules, now time.Time) (next []runstate.GPUClient, soonest time.Duration) {
	soonest = maxGPUClientInterval
	for _, c := range list {
		use := scan.units[c.Unit]
		use.Open, use.Unknown = scan.open[c.Unit], scan.unknown[c.Unit]
		use.Starting = use.Starting || !use.Active && slices.Contains(pending, c.Unit)
		one, keep := c.Next(use, now, rules.settle)
		if !keep || len(use.Open) > 0 || !rules.expected(c.Unit) {
			continue
		}
		if next = append(next, one); one.State == runstate.GPUAwaited && use.Active {
			soonest = min(soonest, max(rules.settle-use.ActiveFor, time.Millisecond))
		}
	}
	return withOpen(next, scan, rules, now), soonest
}

// withOpen adds the clients that have a GPU open.
func withOpen(list []runstate.GPUClient, scan clientScan, rules clientRules, now time.Time) []runstate.GPUClient {
	for unit, gpus := range scan.open {
		if rules.expected(unit) {
			list = append(list, runstate.GPUClient{Unit: unit, GPUs: gpus, Seen: now, State: runstate.GPUOpen})
		}
	}
	slices.SortFunc(list, func(a, b runstate.GPUClient) int { return strings.Compare(a.Unit, b.Unit) })
	return list
}

// openGPUs returns the GPUs that each unit has open.
func openGPUs(u gpu.Usage, devices []gpu.Device) map[string][]partition.Address {
	out := make(map[string][]partition.Address)
	for _, d := range devices {
		for _, h := range u.Holders {
			if h.Unit != "" && len(h.Devices) > 0 && h.Uses(d) && !slices.Contains(out[h.Unit], d.Address) {
				out[h.Unit] = append(out[h.Unit], d.Address)
			}
		}
	}
	return out
}

// publish writes the list if it has changed.
func (w *clientWatch) publish(list []runstate.GPUClient) {
	before := w.list
	w.list.Clients = list
	if w.list.Same(before) {
		return
	}
	for _, c := range list {
		had := before.State(c.Unit)
		switch {
		case c.State == runstate.NoGPU && had != runstate.NoGPU:
			w.log.Warn(runstate.WithoutGPU(c.Unit, c.Names()), "unit", c.Unit)
		case c.State == runstate.GPUOpen && had == runstate.NoGPU:
			w.log.Info(c.Unit+" has a GPU open again", "unit", c.Unit)
		}
	}
	if err := w.write(w.list); err != nil {
		w.log.Warn(err.Error())
	}
	w.changed()
}
