package histories

import (
	"context"
	"errors"
	"maps"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	"dcm/internal/app/plan"
	"dcm/internal/engine/apply"
	"dcm/internal/engine/config"
	"dcm/internal/engine/daemon"
	"dcm/internal/engine/host"
	"dcm/internal/engine/runstate"
	"dcm/internal/exitcode"
	"dcm/internal/gpu"
	"dcm/internal/gpu/partition"
	"dcm/internal/linux/systemd"
	"dcm/internal/linux/unitname"
	"dcm/internal/testkit/pid1"
)

// events reach the daemon's loop while it waits for one.
type events struct {
	changed, devices chan struct{}
	hangup           chan os.Signal
	requests         chan daemon.Request
	onBus            bool
	edited           bool // an edit is not delivered yet
	edit, uevent     *time.Timer
}

// The delays of package service before it reports an edit or a device event.
const (
	configSettleDelay = 200 * time.Millisecond
	deviceSettleDelay = 100 * time.Millisecond
	busDelay          = 20 * time.Millisecond // until a daemon that was started has its name
)

// deliver tries to pass an event to a daemon until it waits for one. The sender is a PID, or 0.
func (p *process) deliver(name string, sender int, try func() bool) {
	for n := 1; ; n++ {
		time.Sleep(p.w.jitter(name, strconv.Itoa(p.pid), sender*1000+n))
		p.w.mu.Lock()
		dead := p.dead
		p.w.mu.Unlock()
		if dead || try() {
			return
		}
	}
}

// post sends a value if a receiver waits.
func post[T any](c chan<- T, v T) bool {
	select {
	case c <- v:
		return true
	default:
		return false
	}
}

// theDaemon returns the daemon's process, nil if it does not run. The caller holds mu.
func (w *world) theDaemon() *process {
	return w.alive(func(p *process) bool { return p.events != nil })
}

// configEvent is the event of an edit. The caller holds mu.
func (w *world) configEvent() {
	if p := w.theDaemon(); p != nil {
		p.events.edited = true
		p.events.edit = w.restart(p.events.edit, configSettleDelay, func() {
			p.deliver("edit", 0, func() bool { return post(p.events.changed, struct{}{}) })
			w.do(func() { p.events.edited = false })
		})
	}
}

// deviceEvent is a kernel event. The caller holds mu.
func (w *world) deviceEvent() {
	if p := w.theDaemon(); p != nil {
		p.events.uevent = w.restart(p.events.uevent, deviceSettleDelay, func() {
			p.deliver("uevent", 0, func() bool { return post(p.events.devices, struct{}{}) })
		})
	}
}

// restart returns a timer in place of another one.
func (w *world) restart(t *time.Timer, d time.Duration, f func()) *time.Timer {
	if t != nil {
		t.Stop()
	}
	if w.ended {
		return nil
	}
	return time.AfterFunc(d, f)
}

// daemon is the program of dcm.service.
func (p *process) daemon() {
	w := p.w
	e := &events{changed: make(chan struct{}), devices: make(chan struct{}), hangup: make(chan os.Signal), requests: make(chan daemon.Request)}
	var previous runstate.State
	p.effect("start", func() {
		p.events = e
		if s := copied(w.files.state); s != nil && s.Boot == w.bootID() {
			previous = *s
		}
		previous.Boot, previous.PID = w.bootID(), p.pid
	})
	time.AfterFunc(busDelay, func() {
		_ = p.tryEffect("acquire the name on the bus", func() { e.onBus = true })
	})
	err := p.loop().Run(p.ctx, previous)
	p.exit(exitStatus(err))
}

func exitStatus(err error) int {
	var broken *daemon.ConfigError
	var failed *daemon.StartError
	switch {
	case err == nil:
		return 0
	case errors.As(err, &broken):
		return exitcode.Config
	case errors.As(err, &failed) && failed.Reason.Transient:
		return exitcode.Transient
	case errors.As(err, &failed):
		return exitcode.Permanent
	}
	return 1
}

func (w *world) bootID() string { return "boot-" + string(rune('0'+w.boot%10)) }

// loop returns the product's loop on this host, as package service makes it.
func (p *process) loop() *daemon.Daemon {
	w := p.w
	hw := newHardware(p)
	var current *config.Config
	load := func() (daemon.Settings, error) {
		var cfg *config.Config
		var err error
		p.effect("read the configuration", func() {
			if cfg, err = w.config(); err == nil {
				w.files.lastGood = cfg
				w.endSelection(cfg)
			}
		})
		if err != nil {
			return daemon.Settings{}, err
		}
		current = cfg
		return w.settings(cfg), nil
	}
	dial := func(context.Context) (daemon.PID1, error) {
		p.effect("connect to PID 1", func() {})
		c := conn{p}
		return daemon.PID1{States: c, Availability: c, Failures: c, Dependencies: c, Order: c, Jobs: c, Pins: c, Manager: c, Closer: c}, nil
	}
	return &daemon.Daemon{
		Load: load,
		LastGood: func() (s daemon.Settings, err error) {
			err = errNoLastGood
			p.effect("read the last good configuration", func() {
				if w.files.lastGood != nil {
					current, err = w.files.lastGood, nil
				}
			})
			if err != nil {
				return s, err
			}
			return w.settings(current), nil
		},
		Stale:     func(s daemon.Settings) ([]string, error) { return p.differing(s.Order.Dropins()), nil },
		Unwritten: func() ([]string, error) { return p.unwritten(), nil },
		Dial:      dial, DialWait: dial,
		Busy: func() (busy bool, err error) {
			p.effect("test the lock of runs", func() { busy = w.files.runLock })
			return busy, nil
		},
		HoldGate: func() (release func(), err error) {
			p.effect("lock the gate", func() { p.lock(&w.files.gateLock) })
			return func() { p.effect("release the gate", func() { p.unlock(&w.files.gateLock) }) }, nil
		},
		LastRun: func() (run *runstate.Run, err error) {
			p.effect("read the report", func() { run = copiedRun(w.files.run) })
			return run, nil
		},
		Save: func(s runstate.State) error {
			return p.tryEffect("save the state: "+string(s.Phase), func() {
				w.files.state = copied(&s)
				w.checks.saved(s)
			})
		},
		Fit:      func([]string) []string { return nil },
		Include:  func([]string) error { return nil },
		Withheld: withheldFiles{p},
		GPUs:     reader{hw, func() *config.Config { return current }},
		Use:      watcher{hw},
		Explain:  apply.Explain,
		Host:     rebooter{p},
		Notify:   notifier{p}, Lifecycle: notifier{p},
		Log:     w.logger(p),
		Notes:   noteFiles{p},
		Changed: p.events.changed, Devices: p.events.devices, Hangup: p.events.hangup, Requests: p.events.requests,
		Limits: daemon.Limits{Retry: daemon.Backoff{Random: func(n int64) int64 { return w.random(n, p.name()+time.Since(w.began).String()) }}},
	}
}

// settings are those of package service, for the features that this host has.
func (w *world) settings(cfg *config.Config) daemon.Settings {
	var by time.Time
	var expired string
	if cfg.Unconfirmed != nil {
		by = cfg.Unconfirmed.Deadline
	}
	if cfg.Expired != nil {
		expired = cfg.Expired.Why()
	}
	return daemon.Settings{
		ConfirmBy: by, Expired: expired,
		Profile: cfg.Profile, Selected: cfg.Selected != "", Source: cfg.Source, Require: cfg.Require, Order: w.orderOf(cfg), Warnings: cfg.Warnings,
		Timeout: cfg.DeviceTimeout, Reboot: cfg.Reboot == config.Once, LeaveDrift: cfg.Drift == config.Report,
		Budgets: plan.Budgets(cfg), SettleTime: cfg.SettleTime, Rest: string(cfg.OnFailure) + string(cfg.UnitOfChange),
	}
}

func (w *world) orderOf(cfg *config.Config) systemd.Order {
	return systemd.Order{Clients: host.Clients(&host.Host{Root: "/nonexistent"}, cfg), Require: cfg.Require, PerGPU: cfg.PerGPU()}
}

// differing returns the units whose drop-ins are not those of the generator.
func (p *process) differing(want map[string]string) (out []string) {
	p.effect("compare the drop-ins", func() {
		for _, file := range slices.Sorted(maps.Keys(want)) {
			if p.w.files.generated[file] != want[file] {
				out = append(out, strings.TrimSuffix(file, ".d/50-dcm.conf"))
			}
		}
		for _, file := range slices.Sorted(maps.Keys(p.w.files.generated)) {
			if _, ok := want[file]; !ok {
				out = append(out, strings.TrimSuffix(file, ".d/50-dcm.conf"))
			}
		}
	})
	return out
}

func (p *process) unwritten() []string {
	var want map[string]string
	p.effect("read the configuration", func() {
		if cfg, _ := p.w.effective(); cfg != nil {
			want = p.w.orderOf(cfg).Dropins()
		}
	})
	return p.differing(want)
}

// generate runs the generator and loads the units. The caller holds mu.
func (w *world) generate() {
	w.files.generated = make(map[string]string)
	if cfg, _ := w.effective(); cfg != nil {
		w.files.generated = w.orderOf(cfg).Dropins()
	}
	dropins := make(map[string]pid1.Dropin)
	for file, text := range w.files.generated {
		unit, _, _ := strings.Cut(file, ".d/")
		dropins[unit] = pid1.ParseDropin(text)
	}
	w.pid1.Load(w.plan.all, dropins)
}

// reader is a [daemon.GPUReader], as package service implements it.
type reader struct {
	*hardware
	config func() *config.Config
}

func (r reader) DriverUnloaded() (unloaded bool) {
	r.p.effect("read the module's state and the report", func() {
		w := r.p.w
		unloaded = apply.HalfReloaded(w.files.run, w.bootID()) && !w.gpus.loaded()
	})
	return unloaded
}

func (r reader) Observe(ctx context.Context, p partition.Profile) (daemon.Observation, error) {
	devices, err := r.Wait(ctx)
	look := daemon.Observation{Fingerprint: gpu.Fingerprint(devices), Present: addressesOf(devices)}
	if err != nil {
		return look, err
	}
	look.Published = func() (is bool) {
		r.p.effect("read the list of partitions", func() { is = r.p.w.listed() })
		return is
	}
	d, err := apply.Compare(devices, p)
	if err != nil || len(d.Steps) == 0 {
		return look, err
	}
	u, err := r.Usage(ctx)
	for _, c := range d.Steps.Changes(d.GPUs) {
		look.GPUs = append(look.GPUs, c.GPU)
	}
	var last *runstate.Partitions
	r.p.effect("read the list of partitions", func() { last = r.p.w.files.partitions })
	look.Diff, look.Scope, look.Users = len(d.Steps), plan.ScopeOf(last, r.config(), d), d.Users()
	if err == nil {
		look.Blocking, err = d.Blockers(u)
	}
	return look, err
}

func addressesOf(devices []gpu.Device) []partition.Address {
	out := []partition.Address{}
	for _, g := range gpu.Partitionable(devices) {
		out = append(out, g.Address)
	}
	return out
}

func (r reader) Inventory(ctx context.Context) daemon.Observation {
	devices, _ := r.Devices(ctx)
	return daemon.Observation{Present: addressesOf(devices), Fingerprint: gpu.Fingerprint(devices)}
}

func (r reader) Glance() string { return "" }

// watcher is a [daemon.UseWatcher].
type watcher struct{ *hardware }

func (u watcher) AwaitExit(ctx context.Context, holders []runstate.Holder) error {
	err := u.p.w.wait(ctx, u.p, func() bool {
		return slices.ContainsFunc(holders, func(h runstate.Holder) bool {
			return u.p.w.alive(func(p *process) bool { return p.pid == h.PID }) == nil
		})
	})
	if err == nil {
		u.p.effect("a holder has ended", func() {})
	}
	return err
}

func (u watcher) Use(ctx context.Context, before runstate.Use) (runstate.Use, error) {
	now, err := u.Usage(ctx)
	return apply.UseNow(before, now), err
}

func (u watcher) AwaitUseBelow(ctx context.Context, than runstate.Use) error {
	<-ctx.Done() // every use of these GPUs is visible
	return ctx.Err()
}

// rebooter is a [daemon.Host].
type rebooter struct{ p *process }

func (rebooter) Reboot(context.Context, partition.Profile, string) error {
	return errors.New("refusing to reboot")
}

func (r rebooter) Reached(partition.Profile) error { return nil }

// notifier is a [daemon.Notifier] and a [daemon.Lifecycle].
type notifier struct{ p *process }

func (notifier) Status(string) error                 { return nil }
func (notifier) Watchdog() error                     { return nil }
func (notifier) ExtendTimeout(d time.Duration) error { return nil }
func (notifier) Reloading() error                    { return nil }
func (notifier) Stopping() error                     { return nil }

func (n notifier) Ready() error {
	return n.p.tryEffect("READY=1", func() {
		n.p.w.pid1.Ready(unitname.Daemon)
	})
}
