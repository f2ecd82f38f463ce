package daemon

import (
	"context"
	"errors"
	"slices"
	"strings"
	"sync"
	"time"

	"dcm/internal/engine/runstate"
	"dcm/internal/gpu/partition"
	"dcm/internal/linux/systemd"
	"dcm/internal/linux/unitname"
)

// killer is a host whose daemon is killed before one of its calls takes effect. The daemon's later calls
// have no effect. What PID 1 has queued by then happens.
type killer struct {
	*requiring
	mu    sync.Mutex
	at    int // the number of the call, from 1; 0: the daemon is not killed
	calls []string
	dead  bool
	jobs  sync.Mutex // held during a restart: a daemon that is killed does not wait for its end
}

var errKilled = errors.New("the daemon was killed")

// attach makes the calls of the daemon pass the killer.
func (k *killer) attach(d *Daemon) {
	dial := func(context.Context) (PID1, error) { return PID1{k, k, k, k, k, k, k, k, k}, k.call("dial") }
	hold, last, save := d.HoldGate, d.LastRun, d.Save
	d.Dial, d.DialWait, d.Withheld = dial, dial, killedMarkers{k}
	d.HoldGate = func() (func(), error) {
		if err := k.call("hold gate"); err != nil {
			return nil, err
		}
		return hold()
	}
	d.LastRun = func() (*runstate.Run, error) {
		if err := k.call("last run"); err != nil {
			return nil, err
		}
		return last()
	}
	d.Save = func(s runstate.State) error {
		if err := k.call("save " + string(s.Phase)); err != nil {
			return err
		}
		return save(s)
	}
}

func (k *killer) call(name string) error {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.calls = append(k.calls, name)
	if !k.dead && k.at > 0 && len(k.calls) >= k.at {
		k.dead = true
		k.stop()
	}
	if k.dead {
		return errKilled
	}
	return nil
}

// killedMarkers are the withheld clients, as the daemon accesses them.
type killedMarkers struct{ k *killer }

func (m killedMarkers) Read() (map[string][]partition.Address, error) {
	if err := m.k.call("read withheld"); err != nil {
		return nil, err
	}
	return m.k.withheld.Read()
}

func (m killedMarkers) Add(clients map[string][]partition.Address) error {
	for _, unit := range sortedKeys(clients) { // killed between two files too
		if err := m.k.call("withhold " + unit); err != nil {
			return err
		}
		if err := m.k.withheld.Add(map[string][]partition.Address{unit: clients[unit]}); err != nil {
			return err
		}
	}
	return nil
}

func (m killedMarkers) Keep(keep func(string, partition.Address) bool) error {
	if err := m.k.call("release"); err != nil {
		return err
	}
	return m.k.withheld.Keep(keep)
}

func (m killedMarkers) Clear() error {
	if err := m.k.call("release all"); err != nil {
		return err
	}
	return m.k.withheld.Clear()
}

func sortedKeys[V any](m map[string]V) []string {
	var out []string
	for key := range m {
		out = append(out, key)
	}
	slices.Sort(out)
	return out
}

// RestartAround queues the jobs one by one. If the daemon is killed before the last one, the run finds units
// that are not stopped, and changes nothing.
func (k *killer) RestartAround(_ context.Context, c systemd.Change, queued func(error)) (systemd.Unit, error) {
	k.jobs.Lock()
	defer k.jobs.Unlock()
	if err := k.call("restart gate"); err != nil {
		queued(nil)
		return systemd.Unit{}, err
	}
	var stopped []string
	for _, unit := range c.Units {
		if k.call("restart "+unit) == nil {
			stopped = append(stopped, unit)
		}
	}
	queued(nil)
	unit := systemd.Unit{Name: c.Run, Active: "failed", Result: "exit-code", Invocation: "2"}
	k.set(func() {
		if len(stopped) == len(c.Units) {
			unit, k.last, _ = k.run(k.host)
			return
		}
		for _, name := range stopped {
			k.tryStart(name, "2"+name)
		}
	})
	return unit, k.call("await run")
}

func (k *killer) Restart(_ context.Context, name string) (systemd.Unit, error) {
	k.jobs.Lock()
	defer k.jobs.Unlock()
	if err := k.call("restart " + name); err != nil {
		return systemd.Unit{}, err
	}
	unit := systemd.Unit{Name: name, Active: "active", Result: "success", Invocation: "2"}
	k.set(func() {
		if name != unitname.Reserve {
			unit, k.last, _ = k.run(k.host)
		}
	})
	return unit, k.call("await " + name)
}

func (k *killer) Start(_ context.Context, name string) error {
	if err := k.call("start " + name); err != nil {
		return err
	}
	k.set(func() { k.tryStart(name, "3"+name) })
	return nil
}

func (k *killer) List(ctx context.Context, names []string, fields systemd.Fields) ([]systemd.Unit, error) {
	if err := k.call("list " + strings.Join(names, " ")); err != nil {
		return nil, err
	}
	return k.host.List(ctx, names, fields)
}

func (k *killer) Settle(ctx context.Context, names []string, settled func(systemd.Unit) bool) ([]systemd.Unit, error) {
	if err := k.call("settle"); err != nil {
		return nil, err
	}
	return k.host.Settle(ctx, names, settled)
}

func (k *killer) Availability(ctx context.Context, patterns []string) ([]systemd.Availability, error) {
	if err := k.call("availability"); err != nil {
		return nil, err
	}
	return k.host.Availability(ctx, patterns)
}

func (k *killer) StartedAndFailed(ctx context.Context, from, to time.Time) ([]string, error) {
	if err := k.call("failed services"); err != nil {
		return nil, err
	}
	return k.host.StartedAndFailed(ctx, from, to)
}

func (k *killer) End(ctx context.Context, name string) (systemd.End, error) {
	if err := k.call("end of " + name); err != nil {
		return systemd.End{}, err
	}
	return k.host.End(ctx, name)
}

func (k *killer) Triggers(ctx context.Context, names []string) ([]systemd.Unit, error) {
	if err := k.call("triggers"); err != nil {
		return nil, err
	}
	return k.host.Triggers(ctx, names)
}

func (k *killer) Dependents(ctx context.Context, names []string) ([]string, error) {
	if err := k.call("dependents"); err != nil {
		return nil, err
	}
	return k.host.Dependents(ctx, names)
}

func (k *killer) ResetFailed(ctx context.Context, name string) error {
	if err := k.call("reset " + name); err != nil {
		return err
	}
	return k.host.ResetFailed(ctx, name)
}

func (k *killer) Pin(ctx context.Context, units []string) error {
	if err := k.call("pin"); err != nil {
		return err
	}
	return k.host.Pin(ctx, units)
}

func (k *killer) Unpin(ctx context.Context) error {
	if err := k.call("unpin"); err != nil {
		return err
	}
	return k.host.Unpin(ctx)
}
