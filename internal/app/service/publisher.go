package service

import (
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"slices"
	"sync/atomic"
	"time"

	"dcm/internal/engine/config"
	"dcm/internal/engine/event"
	"dcm/internal/engine/host"
	"dcm/internal/engine/runstate"
	"dcm/internal/frontends/status"
	"dcm/internal/frontends/status/gather"
	"dcm/internal/linux/dropins"
)

// statusPublisher takes the status after each change of the daemon's state, and publishes it on the
// bus, in the metrics and as the unit's status line. It has a goroutine of its own: the daemon
// waits neither for the bus nor for the GPUs to be read.
type statusPublisher struct {
	host    *host.Host
	config  *effectiveConfig
	metrics *exporter
	notify  func(string) error // sends the unit's status line
	log     *slog.Logger
	states  chan runstate.State              // of 1: only the last one is shown
	wanted  chan chan<- struct{}             // closed once what was saved before is shown
	again   chan struct{}                    // of 1: the status may have changed
	state   atomic.Pointer[runstate.State]   // the last one saved
	seen    atomic.Pointer[status.Inventory] // the last reading of the GPUs
	looked  deviceCache                      // the loop's last reading of the GPUs
	health  atomic.Pointer[status.Health]    // as published last
	warned  []string                         // the warnings that were logged last
	waiting context.CancelFunc               // ends the watch on clients that are down
	running context.CancelFunc               // ends the watch on a run's report; nil for none
	ready   chan struct{}                    // closed when the first state is shown
	ended   chan struct{}                    // closed when run has returned

	steps   func(context.Context) (<-chan struct{}, error)  // receives after each step of a run, until ctx ends
	queue   func() []status.Queued                          // the requests that wait for leases; nil: none can
	lost    func() *dropins.Loss                            // the drop-ins that systemd has not loaded
	held    func(context.Context) (status.HeldParts, error) // the holders of the partitions; nil: not known
	atRest  func()                                          // called when the daemon has come to rest
	publish func(status.Account)                            // on the bus
	found   func()                                          // called when the GPUs that dcm manages are others than before
}

func newStatusPublisher(h *host.Host, cfg *effectiveConfig, metrics *exporter, notify func(string) error, log *slog.Logger) *statusPublisher {
	p := &statusPublisher{
		host: h, config: cfg, metrics: metrics, notify: notify, log: log, waiting: func() {},
		states: make(chan runstate.State, 1), wanted: make(chan chan<- struct{}), again: make(chan struct{}, 1), ready: make(chan struct{}), ended: make(chan struct{}),
		steps: func(ctx context.Context) (<-chan struct{}, error) { return watchReport(ctx, h, log) },
		lost:  func() *dropins.Loss { return nil }, atRest: func() {}, publish: func(status.Account) {}, found: func() {},
	}
	p.state.Store(&runstate.State{Phase: runstate.Starting})
	p.seen.Store(&status.Inventory{})
	return p
}

// save saves the daemon's state and publishes it. Only the daemon's loop calls it. When it
// returns, the metrics are written, unless that took longer than publishTimeout.
func (p *statusPublisher) save(ctx context.Context, s runstate.State) error {
	err := runstate.StateIn(p.host.Runtime()).Replace(s)
	if !isAtRest(s.Phase) {
		p.looked.take() // the GPUs are about to change
	}
	p.state.Store(&s)
	if isAtRest(s.Phase) {
		p.atRest()
	}
	select {
	case <-p.states: // one that has not been shown yet is out of date
	default:
	}
	p.states <- s
	if p.metrics.on() {
		ctx, cancel := context.WithTimeout(ctx, publishTimeout)
		defer cancel()
		p.caughtUp(ctx)
	}
	return err
}

// publishTimeout limits how long the daemon waits for its metrics.
const publishTimeout = 2 * time.Second

// caughtUp returns when all that was saved before is shown, or ctx ends.
func (p *statusPublisher) caughtUp(ctx context.Context) {
	shown := make(chan struct{})
	select {
	case p.wanted <- shown:
	case <-ctx.Done():
		return
	}
	select {
	case <-shown:
	case <-ctx.Done():
	}
}

// run shows each state, until ctx ends.
func (p *statusPublisher) run(ctx context.Context) {
	defer close(p.ended)
	for ready := false; ; {
		select {
		case <-ctx.Done():
			return
		case s := <-p.states:
			p.show(ctx, s)
		case <-p.again:
			p.show(ctx, *p.state.Load())
		case shown := <-p.wanted:
			select {
			case s := <-p.states:
				p.show(ctx, s)
			default:
			}
			close(shown)
		}
		if !ready {
			ready = true
			close(p.ready)
		}
	}
}

// isAtRest reports whether the daemon has a result, and waits for events.
func isAtRest(p runstate.Phase) bool { return p != runstate.Applying && p != runstate.Starting }

// show takes the status for a state and publishes it.
func (p *statusPublisher) show(ctx context.Context, s runstate.State) {
	p.accompany(ctx, s.Phase)
	a := p.take(ctx, s, false)
	if ctx.Err() != nil {
		return // a status that was cut off by the daemon's end is not valid
	}
	p.health.Store(&a.Health)
	if s.Phase != runstate.Starting {
		if err := p.notify(a.Line()); err != nil {
			p.log.Warn(err.Error())
		}
		p.remember(a)
		p.follow(ctx, a)
	}
	p.metrics.write(a)
	p.publish(a)
}

// take gathers the status; if full, with all processes that have a GPU open.
func (p *statusPublisher) take(ctx context.Context, s runstate.State, full bool) status.Account {
	cfg := p.config.get()
	sources := gather.Sources(p.host, gather.Options{
		Config: func() (*config.Config, error) {
			if s.Config != "" {
				return cfg, errors.New(s.Config)
			}
			return cfg, nil
		},
		State: func(context.Context) (*runstate.State, error) { return &s, nil },
		GPUs: func(ctx context.Context) (status.Inventory, error) {
			if !isAtRest(s.Phase) {
				return *p.seen.Load(), nil // not during a run, and not before the first reading
			}
			sight, err := p.sight(ctx, cfg, full)
			if len(sight.GPUs) > 0 {
				if before := p.seen.Swap(&sight); !slices.EqualFunc(managed(before), managed(&sight), sameGPU) {
					p.found()
				}
			}
			return sight, err
		},
		Held: p.heldIf(full),
		Lost: func() *status.Problem { return lost(p.host, cfg, p.lost()) },
		All:  full,
		Busy: !full && !isAtRest(s.Phase),
	})
	sources.Queue = p.queue
	return status.Gather(ctx, time.Now(), sources)
}

// heldIf returns the function that reads the holders of the partitions for a full status.
func (p *statusPublisher) heldIf(full bool) func(context.Context) (status.HeldParts, error) {
	if !full {
		return nil
	}
	return p.held
}

// sight reads the GPUs, unless the daemon has just done so: the status shows the reading that the
// verdict is based on.
func (p *statusPublisher) sight(ctx context.Context, cfg *config.Config, full bool) (status.Inventory, error) {
	if devices := p.looked.take(); devices != nil && !full {
		return gather.InventoryOf(ctx, p.host, cfg, devices, *p.seen.Load())
	}
	return gather.Inventory(ctx, p.host, cfg, *p.seen.Load(), full)
}

// Account returns the status at this moment. What is published follows it.
func (p *statusPublisher) Account(ctx context.Context) (string, error) {
	before := p.seen.Load()
	a := p.take(ctx, *p.state.Load(), true)
	if last := p.health.Load(); last != nil && *last != a.Health || !slices.EqualFunc(before.Parts, p.seen.Load().Parts, status.Part.Same) {
		p.refresh()
	}
	text, err := json.Marshal(a)
	return string(text), err
}

// refresh requests a new status.
func (p *statusPublisher) refresh() {
	select {
	case p.again <- struct{}{}:
	default:
	}
}

// remember records the GPUs after a success. It logs each warning once.
func (p *statusPublisher) remember(a status.Account) {
	warnings := a.Unfit()
	if lost := a.Lost(); lost != "" {
		warnings = append(warnings, lost)
	}
	if more := a.Expected.More(a.Managed()); more != "" {
		warnings = append(warnings, more)
	}
	presence, err := status.Remember(p.host.KnownGPUs(), a)
	if err != nil {
		warnings = append(warnings, err.Error())
	}
	for _, address := range presence.Lost {
		p.log.Error(address+": the GPU is missing", "gpu", address, event.GPULost.Attr())
	}
	for _, address := range presence.Back {
		p.log.Info(address+": the GPU is back", "gpu", address, event.GPUBack.Attr())
	}
	for _, w := range warnings {
		if !slices.Contains(p.warned, w) {
			p.log.Warn(w)
		}
	}
	p.warned = warnings
}
