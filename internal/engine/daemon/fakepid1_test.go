package daemon

import (
	"context"
	"errors"
	"maps"
	"slices"
	"strings"
	"time"

	"dcm/internal/linux/systemd"
	"dcm/internal/linux/unitname"
)

// pid1 is the host as PID 1.
func (h *host) pid1() PID1 { return PID1{h, h, h, h, h, h, h, h, h} }

func (h *host) List(_ context.Context, names []string, _ systemd.Fields) ([]systemd.Unit, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	var out []systemd.Unit
	for _, n := range names {
		u, ok := h.units[n]
		if !ok {
			u = systemd.Unit{Name: n, Load: "not-found", Active: "inactive"}
		}
		if u.ID == "" {
			u.ID = n
		}
		out = append(out, u)
	}
	return out, nil
}

// StartedAndFailed returns the services in h.failed that were started in the period.
func (h *host) StartedAndFailed(_ context.Context, from, to time.Time) ([]string, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	var out []string
	for _, unit := range slices.Sorted(maps.Keys(h.failed)) {
		if start := h.failed[unit]; !start.Before(from) && !start.After(to) {
			out = append(out, unit)
		}
	}
	return out, nil
}

// RestartAround restarts the units of a change, and notes which.
func (h *host) RestartAround(ctx context.Context, c systemd.Change, queued func(error)) (systemd.Unit, error) {
	h.set(func() { h.note("around:%s", strings.Join(slices.Concat(c.Units, c.First), ",")) })
	queued(nil)
	return h.Restart(ctx, c.Run)
}

func (h *host) Dependents(context.Context, []string) ([]string, error) { return h.depend, nil }

func (h *host) Availability(_ context.Context, patterns []string) ([]systemd.Availability, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	var out []systemd.Availability
	for _, name := range slices.Sorted(maps.Keys(h.units)) {
		u := h.units[name]
		if !slices.ContainsFunc(patterns, func(p string) bool { return matches(p, name) }) {
			continue
		}
		a := systemd.Availability{Unit: u}
		a.ID = name
		if active, ok := h.young[name]; ok {
			a.ActiveFor = active
		} else {
			a.ActiveFor = time.Hour
		}
		if u.Active == "inactive" {
			a.WantedBy = h.wantedBy
		}
		out = append(out, a)
	}
	return out, nil
}

func (h *host) Changed(ctx context.Context, _ map[string]string) error {
	select {
	case <-h.unitEvent:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

func (h *host) End(_ context.Context, name string) (systemd.End, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.ends[name], nil
}

func (h *host) Frozen(_ context.Context, unit string) (bool, error) {
	return strings.HasPrefix(unit, "frozen"), nil
}

func (h *host) OrderedAfter(_ context.Context, unit, _ string, _ []string) (bool, error) {
	return !strings.HasPrefix(unit, "early"), nil
}

func (h *host) OrderingPath(_ context.Context, unit string, others []string) ([]string, error) {
	return []string{unit, "x.target", others[0]}, nil
}

func (h *host) Reload(context.Context) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.note("daemon-reload")
	switch {
	case h.broken:
		return nil
	case h.edited != nil:
		h.stale, h.generated = false, h.edited
		return nil
	}
	h.stale, h.generated = false, h.settings.Order.Clients
	return nil
}

func (h *host) ResetFailed(_ context.Context, name string) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.note("reset:%s", name)
	return nil
}

func (h *host) Start(_ context.Context, name string) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.note("start:%s", name)
	return nil
}

// Restart fails after the end of the daemon: the goroutine of a pass goes on then, unlike a killed process.
func (h *host) Restart(ctx context.Context, name string) (systemd.Unit, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if err := ctx.Err(); err != nil {
		return systemd.Unit{}, err
	}
	h.note("restart:%s", name)
	if name == unitname.Reserve && h.choose != nil {
		return h.choose(h), nil
	}
	if name == unitname.Reserve {
		h.due = false
		return h.choice, nil
	}
	u, run, err := h.run(h)
	h.last = run
	return u, err
}

func (h *host) Triggers(ctx context.Context, _ []string) ([]systemd.Unit, error) {
	units, err := h.List(ctx, h.triggers, systemd.All)
	return slices.DeleteFunc(units, func(u systemd.Unit) bool { return !u.Up() }), err
}

func (h *host) Settle(ctx context.Context, names []string, settled func(systemd.Unit) bool) ([]systemd.Unit, error) {
	h.set(func() {
		if slices.Equal(names, unitname.Runs()) {
			h.note("await")
			h.busy = false
			for _, run := range names {
				u := h.units[run]
				u.Active, u.Job = "active", false
				h.units[run] = u
			}
		}
	})
	units, err := h.List(ctx, names, systemd.All)
	if len(units) == 1 && units[0].Job && !settled(units[0]) { // a wait of [waker.onSettled]
		select {
		case <-h.unitEvent:
		case <-ctx.Done():
		}
		units, err = h.List(ctx, names, systemd.All)
		return units, errors.Join(err, ctx.Err())
	}
	return units, err
}

func (h *host) Pin(_ context.Context, units []string) error {
	h.set(func() { h.held = append(h.held, strings.Join(units, " ")) })
	return nil
}

func (h *host) Unpin(context.Context) error {
	h.set(func() { h.held = append(h.held, "") })
	return nil
}

func (h *host) Close() error { return nil }
