package service

import (
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"dcm/internal/app/host"
	"dcm/internal/app/leaseservice"
	"dcm/internal/engine/config"
	"dcm/internal/engine/config/selection"
	"dcm/internal/engine/daemon"
	"dcm/internal/engine/runstate"
	"dcm/internal/frontends/dbusapi"
	"dcm/internal/frontends/status"
	"dcm/internal/linux/dropins"
	"dcm/internal/linux/watch"
)

// statusPublisher takes accounts of what the daemon does and has them told: on the bus, in the
// metrics, in the unit's status line. It has a goroutine of its own: the daemon waits
// neither for the bus nor for the look at the GPUs that is shown.
type statusPublisher struct {
	host    *host.Host
	service *dbusapi.Service
	leases  *leaseservice.Service
	guard   *guardian
	spare   *memoryReleaser
	ran     atomic.Bool // there was a run since memory was given back last
	metrics *exporter
	notify  func(string) error // sends the unit's status line
	watches *watch.Set
	log     *slog.Logger
	files   sync.Mutex                       // of who reads the configuration, which may be large
	states  chan runstate.State              // of 1: only the last one is shown
	wanted  chan chan<- struct{}             // closed once what was saved before is shown
	again   chan struct{}                    // of 1: something may be otherwise than it was shown
	state   atomic.Pointer[runstate.State]   // the last one saved
	config  atomic.Pointer[config.Config]    // in force
	seen    atomic.Pointer[status.Inventory] // the GPUs, as seen last
	looked  deviceCache                      // the daemon's own last look at the GPUs
	dropins *dropins.Keeper
	told    atomic.Pointer[status.Health]
	warned  []string           // what the journal was told last
	waiting context.CancelFunc // ends the watch on clients that are down
	running context.CancelFunc // ends the watch on a run's report; nil for none
}

func newStatusPublisher(h *host.Host, requests chan<- daemon.Request, metrics *exporter, spare *memoryReleaser, notify func(string) error, watches *watch.Set, log *slog.Logger) *statusPublisher {
	m := &statusPublisher{host: h, metrics: metrics, spare: spare, notify: notify, watches: watches, log: log, states: make(chan runstate.State, 1), wanted: make(chan chan<- struct{}),
		again: make(chan struct{}, 1), waiting: func() {}}
	m.guard = newGuardian(hostGuard{h, func() []string { return m.config.Load().Observers }}, log, m.stir)
	m.leases = leaseservice.New(h, m.config.Load, m.guard.nudge, log)
	m.service = dbusapi.New(dbusapi.SystemBus, control{host: h, node: h.Node(nil), requests: requests, files: &m.files, shown: m, config: m.config.Load, Service: m.leases}, log)
	m.dropins = newKeeper(h, m.config.Load, &m.files, m.stir, log)
	m.config.Store(&config.Config{})
	m.state.Store(&runstate.State{Phase: runstate.Starting})
	m.seen.Store(&status.Inventory{})
	return m
}

// load is the daemon's way to its settings, overheard. What is in order is handed on to
// the oneshot and the generator, for when it is not any more.
func (m *statusPublisher) load() (daemon.Settings, error) {
	m.files.Lock()
	defer m.files.Unlock()
	cfg, err := m.host.Config()
	if err != nil {
		return daemon.Settings{}, err
	}
	paths := config.DefaultPaths(m.host.Root)
	if cfg.Ended != "" {
		m.log.Info(cfg.Ended)
		if err := selection.ClearRuntime(paths); err != nil {
			m.log.Warn(err.Error()) // it does not count all the same
		}
	}
	if err := selection.SaveLastGood(paths, cfg); err != nil {
		m.log.Warn(err.Error())
	}
	m.config.Store(cfg)
	m.leases.ApplyLimits()
	return settings(m.host, cfg), nil
}

// lastGood is load where that fails, and an earlier daemon has handed something on.
func (m *statusPublisher) lastGood() (daemon.Settings, error) {
	cfg, err := selection.LastGood(config.DefaultPaths(m.host.Root))
	if err != nil {
		return daemon.Settings{}, err
	}
	m.config.Store(cfg)
	m.leases.ApplyLimits()
	return settings(m.host, cfg), nil
}

// save writes the daemon's state down, and has it shown. The daemon alone calls it.
// Metrics that are to be written are so when it returns, if nothing hangs.
func (m *statusPublisher) save(ctx context.Context, s runstate.State) error {
	err := runstate.StateIn(m.host.Runtime()).Replace(s)
	if s.Phase == runstate.Applying {
		m.ran.Store(true)
	}
	if !atRest(s.Phase) {
		m.looked.take() // the GPUs are about to be otherwise
	}
	m.state.Store(&s)
	if atRest(s.Phase) {
		m.guard.nudge()
	}
	select {
	case <-m.states: // one that has not been shown yet is out of date
	default:
	}
	m.states <- s
	if m.metrics.on() {
		ctx, cancel := context.WithTimeout(ctx, glance)
		defer cancel()
		m.caughtUp(ctx)
	}
	return err
}

// glance is how long the daemon waits for its metrics.
const glance = 2 * time.Second

// caughtUp returns when all that was saved before is shown, or ctx ends.
func (m *statusPublisher) caughtUp(ctx context.Context) {
	shown := make(chan struct{})
	select {
	case m.wanted <- shown:
	case <-ctx.Done():
		return
	}
	select {
	case <-shown:
	case <-ctx.Done():
	}
}

// run is on the bus until ctx ends, and returns when nothing is watched any more.
func (m *statusPublisher) run(ctx context.Context) {
	// The bus's socket is made anew when the bus is started anew. What a policy
	// allows changes with its file.
	dirs := []string{"/run/dbus", "/usr/share/dbus-1/system.d", "/etc/dbus-1/system.d"}
	appeared, err := m.watches.Files(ctx, dirs, configDebounce, m.log)
	if err != nil {
		m.log.Warn("a bus that is started later will not be noticed", "error", err)
	}
	up := false
	for {
		select {
		case <-ctx.Done():
			for open := err == nil; open; {
				_, open = <-appeared // the daemon waits for its end
			}
			return
		case s := <-m.states:
			m.show(ctx, s)
		case <-m.again:
			m.show(ctx, *m.state.Load())
		case shown := <-m.wanted:
			select {
			case s := <-m.states:
				m.show(ctx, s)
			default:
			}
			close(shown)
		}
		if !up && m.host.Here() {
			up = true
			go m.service.Run(ctx, appeared)
			go m.dropins.Run(ctx)
			go m.guard.run(ctx)
			go m.leases.Resume(ctx)
		}
	}
}

// atRest reports whether the daemon has come to a verdict, and now waits.
func atRest(p runstate.Phase) bool { return p != runstate.Applying && p != runstate.Starting }

// show takes an account for a state and has it told.
func (m *statusPublisher) show(ctx context.Context, s runstate.State) {
	m.accompany(ctx, s.Phase)
	a := m.take(ctx, s, false)
	if ctx.Err() != nil {
		return // a look that the daemon's end has cut off says nothing of the host
	}
	m.told.Store(&a.Health)
	if s.Phase != runstate.Starting {
		if err := m.notify(a.Line()); err != nil {
			m.log.Warn(err.Error())
		}
		m.remember(a)
		m.follow(ctx, a)
	}
	m.metrics.write(a)
	m.service.Publish(a)
	if atRest(s.Phase) {
		m.spare.afterWork(m.ran.Swap(false))
	}
}

// take takes an account; in full with all processes that have a GPU open.
func (m *statusPublisher) take(ctx context.Context, s runstate.State, full bool) status.Account {
	cfg := m.config.Load()
	sources := m.host.Sources(host.Outlook{
		Config: func() (*config.Config, error) {
			if s.Config != "" {
				return cfg, errors.New(s.Config)
			}
			return cfg, nil
		},
		State: func(context.Context) (*runstate.State, error) { return &s, nil },
		GPUs: func(ctx context.Context) (status.Inventory, error) {
			if !atRest(s.Phase) {
				return *m.seen.Load(), nil // in a run and before the first look the GPUs are somebody else's
			}
			sight, err := m.sight(ctx, cfg, full)
			if len(sight.GPUs) > 0 {
				m.seen.Store(&sight)
			}
			return sight, err
		},
		Lost: func() *status.Problem { return lost(m.host, cfg, m.dropins.Lost()) },
		All:  full,
		Busy: !full && !atRest(s.Phase),
	})
	sources.Queue = m.leases.Queue
	return status.Gather(ctx, time.Now(), sources)
}

// sight looks at the GPUs, unless the daemon has done so just now: what it came to its
// verdict by is what is shown beside it.
func (m *statusPublisher) sight(ctx context.Context, cfg *config.Config, full bool) (status.Inventory, error) {
	if devices := m.looked.take(); devices != nil && !full {
		return m.host.SightOf(ctx, cfg, devices, *m.seen.Load())
	}
	return m.host.Sight(ctx, cfg, *m.seen.Load(), full)
}

// Account is what is so at this moment. What is told elsewhere follows it.
func (m *statusPublisher) Account(ctx context.Context) (string, error) {
	before := m.seen.Load()
	a := m.take(ctx, *m.state.Load(), true)
	if told := m.told.Load(); told != nil && *told != a.Health || !slices.Equal(before.Parts, m.seen.Load().Parts) {
		m.stir()
	}
	text, err := json.Marshal(a)
	return string(text), err
}

// stir has what is shown looked at again.
func (m *statusPublisher) stir() {
	select {
	case m.again <- struct{}{}:
	default:
	}
}

// remember notes the GPUs of a success. What is to be warned of, clients that cannot
// be restarted and another number of GPUs than there should be among it, is so once.
func (m *statusPublisher) remember(a status.Account) {
	warnings := a.Unfit()
	if lost := a.Lost(); lost != "" {
		warnings = append(warnings, lost)
	}
	if more := a.Expected.More(a.Managed()); more != "" {
		warnings = append(warnings, more)
	}
	if err := status.Remember(m.host.KnownGPUs(), a); err != nil {
		warnings = append(warnings, err.Error())
	}
	for _, w := range warnings {
		if !slices.Contains(m.warned, w) {
			m.log.Warn(w)
		}
	}
	m.warned = warnings
}

// How long a run's report has to be quiet for what it says to be shown, and how long
// that may be put off.
const (
	stepped = 100 * time.Millisecond
	latest  = 500 * time.Millisecond
)

// accompany has each step of a run shown, while one is under way: the daemon itself
// waits for the end.
func (m *statusPublisher) accompany(ctx context.Context, p runstate.Phase) {
	switch {
	case p != runstate.Applying && m.running != nil:
		m.running()
		m.running = nil
		select {
		case <-m.again: // a last step, which is shown with the verdict
		default:
		}
	case p == runstate.Applying && m.running == nil:
		ctx, m.running = context.WithCancel(ctx)
		changed, err := new(watch.Set).FilesWithin(ctx, []string{m.host.Runtime()}, stepped, latest, m.log)
		if err != nil { // too many are watched on this host, say
			m.log.Warn("the steps of the run are not told on the bus", "error", err)
			return
		}
		go func() {
			for range changed {
				m.stir()
			}
		}()
	}
}

// follow waits for clients that are down, as long as there are any: what is told of
// them is to end with it.
func (m *statusPublisher) follow(ctx context.Context, a status.Account) {
	m.waiting()
	m.waiting = func() {}
	down := a.DownClients()
	if len(down) == 0 || !m.host.Here() || !atRest(a.Daemon.Phase) {
		return
	}
	ctx, m.waiting = context.WithCancel(ctx)
	go func() {
		conn, err := m.host.DialToWait(ctx)
		if err != nil {
			return // the next account tells
		}
		defer conn.Close()
		if conn.Changed(ctx, down) == nil {
			m.stir()
		}
	}()
}
