package daemon

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"dcm/internal/engine/runstate"
	"dcm/internal/gpu/partition"
	"dcm/internal/linux/systemd"
	"dcm/internal/linux/unitname"
	"dcm/internal/testkit/testdeadline"
)

// host is a machine in memory: PID 1, the GPUs and the files. It records each event as one word.
type host struct {
	t *testing.T

	mu        sync.Mutex
	events    []string
	settings  Settings
	good      *Settings // the last good configuration of an earlier daemon
	loadErr   error
	stale     bool
	broken    bool     // the generator fails
	edited    []string // the clients of another edit, which the generator reads
	generated []string // the clients at the last reload of systemd
	busy      bool
	steps     int
	gpus      []partition.Address
	looks     atomic.Int64
	turns     int    // part of the fingerprint of the GPUs
	short     string // the result of GPUReader.Glance
	stepsErr  error
	unloaded  bool // a run has left the driver unloaded
	blocking  []runstate.Holder
	scope     *Scope
	users     runstate.InstanceUsers
	changing  []partition.Address // the GPUs that the steps change
	units     map[string]systemd.Unit
	depend    []string
	young     map[string]time.Duration // how long units have been active; others for an hour
	wantedBy  string                   // of all inactive units
	unitEvent chan struct{}            // receives when the state of a unit has changed
	ends      map[string]systemd.End
	run       func(h *host) (systemd.Unit, *runstate.Run, error) // what a restart of the oneshot does
	last      *runstate.Run
	gone      chan struct{}
	use       runstate.Use  // part of the use count that no process explains
	eased     chan struct{} // receives when the use count falls
	retry     Backoff
	initial   runstate.State

	saveErr   error
	log       *slog.Logger
	rebootErr error
	reached   string // the last profile that was

	due         bool  // the reservations have changed
	notDue      error // why no partitions can be chosen for them
	unmet       bool
	noted       []runstate.Note            // the notes of commands
	unpublished bool                       // the published list of partitions does not match the GPUs
	looked      int                        // passes that have ended
	choice      systemd.Unit               // the state of dcm-reserve.service after its run
	choose      func(h *host) systemd.Unit // the run of dcm-reserve.service; nil: it chooses partitions for all reservations

	prepare  func(*Daemon) // changes a daemon before its start; nil: nothing
	withheld runstate.Withheld
	failed   map[string]time.Time // services that have failed, and when they were started
	triggers []string             // units that start the clients

	held    []string // units that the daemon asked PID 1 to keep loaded, in the order of the requests
	stop    func()   // ends the daemon
	states  chan runstate.State
	saved   runstate.State
	line    string   // the unit's status line
	lines   []string // the status line at each save of the state
	changed chan struct{}
	devices chan struct{}
	hangup  chan os.Signal
	ticks   chan time.Time

	requests chan Request
}

func newHost(t *testing.T) *host {
	h := &host{
		t:        t,
		settings: Settings{Profile: partition.Profile{Name: "cpx"}, Selected: true, Source: "dcm.toml:1", Order: systemd.Order{Clients: []string{"a.service", "b.service"}}},
		units: map[string]systemd.Unit{
			"a.service":    {Name: "a.service", Load: "loaded", Active: "active", Sub: "running", Result: "success"},
			"b.service":    {Name: "b.service", Load: "loaded", Active: "inactive", Sub: "dead", Result: "success"},
			unitname.Apply: {Name: unitname.Apply, Load: "loaded", Active: "active", Sub: "exited", Result: "success"},
		},
		gone: make(chan struct{}), eased: make(chan struct{}), retry: Backoff{First: time.Millisecond, Most: 4 * time.Millisecond},
		states: make(chan runstate.State, 100), changed: make(chan struct{}, 1), devices: make(chan struct{}),
		hangup: make(chan os.Signal, 1), ticks: make(chan time.Time),
		young: make(map[string]time.Duration), unitEvent: make(chan struct{}),
		requests: make(chan Request), log: slog.New(slog.DiscardHandler),
	}
	h.withheld = runstate.WithheldIn(t.TempDir())
	h.run, h.generated = succeed, h.settings.Order.Clients
	return h
}

// succeed is a run that puts the profile on the GPUs.
func succeed(h *host) (systemd.Unit, *runstate.Run, error) {
	h.steps = 0
	return systemd.Unit{Name: unitname.Apply, Active: "active", Sub: "exited", Result: "success", Invocation: "1"}, &runstate.Run{ID: "1", Profile: h.settings.Profile.Name, Result: runstate.Applied}, nil
}

// failing is a run that ends with the error.
func failing(e runstate.Error) func(*host) (systemd.Unit, *runstate.Run, error) {
	return func(*host) (systemd.Unit, *runstate.Run, error) {
		return systemd.Unit{Name: unitname.Apply, Active: "failed", Result: "exit-code", Invocation: "1"}, &runstate.Run{ID: "1", Result: runstate.Failed, Error: &e}, nil
	}
}

func (h *host) note(format string, args ...any) {
	h.events = append(h.events, fmt.Sprintf(format, args...))
}

// did returns the events since the last call, without the watchdog's, which tests
// use to wait.
func (h *host) did() string {
	h.mu.Lock()
	defer h.mu.Unlock()
	s := strings.Join(slices.DeleteFunc(h.events, func(e string) bool { return e == "WATCHDOG" }), " ")
	h.events = nil
	return s
}

// startedAgain makes the host report that systemd restarted the daemon by itself (Restart=).
func (h *host) startedAgain() {
	h.units[unitname.Daemon] = systemd.Unit{Name: unitname.Daemon, Load: "loaded", Active: "activating", Restarts: 7}
}

// left returns the last state that the daemon saved.
func (h *host) left() (s runstate.State) {
	for len(h.states) > 0 {
		s = <-h.states
	}
	return s
}

func (h *host) set(f func()) {
	h.mu.Lock()
	defer h.mu.Unlock()
	f()
}

// start runs the daemon until the test ends; its error is delivered when it ends.
func (h *host) start() <-chan error {
	ctx, cancel := context.WithCancel(h.t.Context())
	d := &Daemon{
		Load: func() (Settings, error) {
			h.mu.Lock()
			defer h.mu.Unlock()
			return h.settings, h.loadErr
		},
		LastGood: func() (Settings, error) {
			h.mu.Lock()
			defer h.mu.Unlock()
			if h.good == nil {
				return Settings{}, errors.New("none")
			}
			return *h.good, nil
		},
		Stale: func(s Settings) ([]string, error) {
			h.mu.Lock()
			defer h.mu.Unlock()
			if h.stale || !slices.Equal(s.Order.Clients, h.generated) {
				return []string{"a.service"}, nil
			}
			return nil, nil
		},
		Unwritten: func() ([]string, error) {
			h.mu.Lock()
			defer h.mu.Unlock()
			if h.broken {
				return []string{"a.service"}, nil
			}
			return nil, nil
		},
		Reserve: func(context.Context, Settings) (bool, error) {
			h.mu.Lock()
			defer h.mu.Unlock()
			return h.due, h.notDue
		},
		Notes:    (*notes)(h),
		Unmet:    func() bool { h.mu.Lock(); defer h.mu.Unlock(); return h.unmet },
		Dial:     func(context.Context) (PID1, error) { return h.pid1(), nil },
		DialWait: func(context.Context) (PID1, error) { return h.pid1(), nil },
		Busy:     func() (bool, error) { h.mu.Lock(); defer h.mu.Unlock(); return h.busy, nil },
		HoldGate: func() (func(), error) {
			h.set(func() { h.note("hold") })
			return func() { h.set(func() { h.note("release") }) }, nil
		},
		LastRun: func() (*runstate.Run, error) { h.mu.Lock(); defer h.mu.Unlock(); return h.last, nil },
		Save: func(s runstate.State) error {
			h.mu.Lock()
			defer h.mu.Unlock()
			if err := ctx.Err(); err != nil {
				return err // a killed daemon writes nothing, see Restart
			}
			h.states <- s
			h.saved = s
			h.lines = append(h.lines, h.line)
			return h.saveErr
		},
		Fit: func(units []string) []string {
			return slices.DeleteFunc(units, func(u string) bool { return !strings.HasPrefix(u, "fit-") })
		},
		Include: func(units []string) error {
			h.set(func() {
				h.note("include:%s", strings.Join(units, ","))
				h.settings.Order.Clients = append(slices.Clone(h.settings.Order.Clients), units...)
			})
			return nil
		},
		Withheld: h.withheld,
		Rearm:    func() { h.set(func() { h.looked++ }) },
		GPUs:     (*hardware)(h), Use: (*hardware)(h), Host: (*power)(h), Notify: (*notifications)(h), Lifecycle: (*notifications)(h), Log: h.log, Explain: explain,
		Changed: h.changed, Devices: h.devices, Hangup: h.hangup, Ticks: h.ticks, Requests: h.requests,
		Limits: Limits{Retry: h.retry},
	}
	h.stop = cancel
	if h.prepare != nil {
		h.prepare(d)
	}
	ended := make(chan error, 1)
	go func() { ended <- d.Run(ctx, h.initial) }()
	h.t.Cleanup(cancel)
	return ended
}

// until waits for a state that the daemon publishes.
func (h *host) until(what string, is func(runstate.State) bool) runstate.State {
	h.t.Helper()
	deadline := testdeadline.After(10 * time.Second)
	for {
		select {
		case s := <-h.states:
			if is(s) {
				return s
			}
		case <-deadline:
			h.t.Fatalf("no state with %s; events: %s", what, h.did())
		}
	}
}

func phase(p runstate.Phase) func(runstate.State) bool {
	return func(s runstate.State) bool { return s.Phase == p }
}

// power is the host as what can be rebooted.
type power host

func (p *power) Reboot(_ context.Context, profile partition.Profile, why string) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	(*host)(p).note("reboot:%s", profile.Name)
	return p.rebootErr
}

func (p *power) Reached(profile partition.Profile) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.reached = profile.Name
	return nil
}

// hardware is the host as a [GPUReader].
type hardware host

func (h *hardware) Observe(context.Context, partition.Profile) (Observation, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	published := func() bool { h.mu.Lock(); defer h.mu.Unlock(); return !h.unpublished }
	return Observation{Diff: h.steps, GPUs: h.changing, Present: h.gpus, Blocking: h.blocking, Scope: h.scope, Users: h.users, Published: published, Fingerprint: fmt.Sprint(h.steps, h.turns)}, h.stepsErr
}

func (h *hardware) DriverUnloaded() bool { h.mu.Lock(); defer h.mu.Unlock(); return h.unloaded }

func (h *hardware) Glance() string {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.short
}

func (h *hardware) Inventory(context.Context) Observation {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.looks.Add(1)
	return Observation{Present: h.gpus, Fingerprint: fmt.Sprint(h.steps, h.turns)}
}

func (h *hardware) Use(context.Context, runstate.Use) (runstate.Use, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.use, nil
}

func (h *hardware) AwaitUseBelow(ctx context.Context, _ runstate.Use) error {
	select {
	case <-h.eased:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

func explain(err error) runstate.Error {
	return runstate.Error{Text: err.Error(), Transient: errors.Is(err, errPassing)}
}

func (h *hardware) AwaitExit(ctx context.Context, _ []runstate.Holder) error {
	select {
	case <-h.gone:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

var errPassing = errors.New("the driver is coming up")

// notifications is the host as the receiver of the daemon's notifications.
type notifications host

func (n *notifications) record(s string) error {
	n.mu.Lock()
	defer n.mu.Unlock()
	(*host)(n).note("%s", s)
	return nil
}

func (n *notifications) Ready() error     { return n.record("READY") }
func (n *notifications) Reloading() error { return n.record("RELOADING") }
func (n *notifications) Stopping() error  { return n.record("STOPPING") }
func (n *notifications) Watchdog() error  { return nil } // not an event of the test: the loop sends it at each tick
func (n *notifications) Status(text string) error {
	(*host)(n).set(func() { n.line = text })
	return nil
}
func (n *notifications) ExtendTimeout(time.Duration) error { return nil }
