package histories

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"dcm/internal/linux/systemd"
	"dcm/internal/linux/unitname"
	"dcm/internal/testkit/pid1"
)

// conn is a connection of a process to PID 1. It has the methods of package systemd that the daemon uses, with
// the same results.
type conn struct{ p *process }

func (c conn) Close() error { return nil }

// effect is [process.effect] of a call, which PID 1 answers when it is not being replaced.
func (c conn) effect(name string, f func()) {
	w := c.p.w
	for away := true; away; {
		var left time.Duration
		w.do(func() { left = w.pid1Away - w.now() })
		if away = left > 0; away {
			time.Sleep(left + w.jitter("pid1 away", name, c.p.pid))
		}
	}
	c.p.effect(name, f)
}

// unitOf converts a state. The caller holds mu.
func (c conn) unitOf(name string) systemd.Unit {
	s := c.p.w.pid1.Status(name)
	u := systemd.Unit{Name: name, ID: name, Load: s.Load, Active: s.Active, Sub: s.Sub, Invocation: s.Invocation, MainPID: uint32(s.MainPID), Job: s.Job != ""}
	if strings.HasSuffix(name, ".service") {
		u.Result, u.Restarts = s.Result, s.Restarts
		u.Oneshot = u.Active != "active" && s.Type == "oneshot" && !s.RemainAfterExit
		if s.Result != "success" && s.Failed.Program != "" {
			u.Failed = systemd.Command{Directive: s.Failed.Directive, Path: s.Failed.Program, Signal: s.Failed.Signal, Status: s.Failed.Status}
		}
	}
	return u
}

// expand replaces templates by their instances. The caller holds mu.
func (c conn) expand(names []string) (out []string) {
	for _, name := range names {
		if !strings.Contains(name, "@.") {
			out = append(out, name)
			continue
		}
		for _, u := range c.p.w.pid1.Units() {
			if unitname.Template(u) == name {
				out = append(out, u)
			}
		}
	}
	return out
}

func (c conn) list(names []string) (out []systemd.Unit) {
	for _, name := range c.expand(names) {
		out = append(out, c.unitOf(name))
	}
	return out
}

// List implements [daemon.UnitReader].
func (c conn) List(_ context.Context, names []string, _ systemd.Fields) (out []systemd.Unit, err error) {
	c.effect("list "+strings.Join(names, " "), func() { out = c.list(names) })
	return out, nil
}

// Settle implements [daemon.UnitReader].
func (c conn) Settle(ctx context.Context, names []string, settled func(systemd.Unit) bool) (out []systemd.Unit, err error) {
	c.effect("settle", func() {})
	unsettled := func() []systemd.Unit {
		return slices.DeleteFunc(c.list(names), settled)
	}
	err = c.p.w.wait(ctx, c.p, func() bool { return len(unsettled()) == 0 })
	c.effect("settled", func() {
		out = c.list(names)
		if left := unsettled(); err != nil && len(left) > 0 {
			err = fmt.Errorf("%d of the units have not settled, first %s: %w", len(left), left[0].ID, err)
		}
	})
	return out, err
}

// micro converts a time of PID 1.
func micro(d time.Duration) uint64 { return uint64(d / time.Microsecond) }

// End implements [daemon.UnitReader].
func (c conn) End(_ context.Context, name string) (e systemd.End, err error) {
	c.effect("read the end of "+name, func() {
		m := c.p.w.pid1
		s := m.Status(name)
		e = systemd.End{
			Began: micro(s.InactiveExit), Tried: micro(s.Times.Condition), Left: micro(s.ActiveExit), Gone: micro(s.InactiveEnter), Exited: micro(s.MainExit),
			Remains: s.RemainAfterExit, Bound: m.Related(name, "BindsTo"), Parts: m.Related(name, "ConsistsOf"),
		}
		e.Skipped = !s.ConditionMet && s.Times.Condition > s.ActiveExit || !s.AssertMet && s.Times.Assert > s.ActiveExit
		e.Needs = slices.Concat(m.Related(name, "Requires"), m.Related(name, "Requisite"), e.Bound)
	})
	return e, nil
}

// Frozen implements [daemon.UnitReader].
func (conn) Frozen(context.Context, string) (bool, error) { return false, nil }

// Availability implements [daemon.AvailabilityReader].
func (c conn) Availability(_ context.Context, patterns []string) (out []systemd.Availability, err error) {
	c.effect("read availability", func() {
		w := c.p.w
		for _, name := range w.pid1.Units() {
			if unitname.Own(name) || !slices.ContainsFunc(patterns, func(p string) bool { return matches(p, name) }) {
				continue
			}
			s := w.pid1.Status(name)
			a := systemd.Availability{Unit: c.unitOf(name)}
			if s.Active == "active" {
				a.ActiveFor = w.now() - s.ActiveEnter
			}
			if s.Active == "inactive" && !a.Done() && (s.Times.Condition == 0 || s.ConditionMet) {
				for _, by := range slices.Concat(w.pid1.Related(name, "WantedBy"), w.pid1.Related(name, "RequiredBy")) {
					if w.pid1.Status(by).Active == "active" {
						a.WantedBy = by
						break
					}
				}
			}
			out = append(out, a)
		}
	})
	return out, nil
}

// matches reports whether a name matches a pattern, in which * is any text.
func matches(pattern, name string) bool {
	head, tail, star := strings.Cut(pattern, "*")
	return name == pattern || star && strings.HasPrefix(name, head) && strings.HasSuffix(name, tail) && len(name) >= len(head)+len(tail)
}

// Changed implements [daemon.AvailabilityReader].
func (c conn) Changed(ctx context.Context, had map[string]string) error {
	err := c.p.w.wait(ctx, c.p, func() bool {
		for name, active := range had {
			if c.p.w.pid1.Status(name).Active != active {
				return true
			}
		}
		return false
	})
	if err == nil {
		c.effect("a unit has changed", func() {})
	}
	return err
}

// StartedAndFailed implements [daemon.FailureReader].
func (c conn) StartedAndFailed(_ context.Context, from, to time.Time) (out []string, err error) {
	c.effect("list failed services", func() {
		w := c.p.w
		for _, name := range w.pid1.Units() {
			s := w.pid1.Status(name)
			start := w.began.Add(s.InactiveExit - time.Second)
			if strings.HasSuffix(name, ".service") && s.Active == "failed" && s.InactiveExit > 0 && !start.Before(from) && !start.After(to) {
				out = append(out, name)
			}
		}
	})
	return out, nil
}

// Dependents implements [systemd.DependentsReader].
func (c conn) Dependents(_ context.Context, names []string) (out []string, err error) {
	c.effect("read dependents", func() {
		m := c.p.w.pid1
		up := func(name string) bool {
			return name == unitname.Reserve || slices.Contains(unitname.Runs(), name) || !slices.Contains([]string{"inactive", "failed", "deactivating"}, m.Status(name).Active)
		}
		seen := slices.Clone(names)
		for level := slices.DeleteFunc(c.expand(names), func(n string) bool { return !up(n) }); len(level) > 0; {
			var next []string
			for _, name := range level {
				for _, property := range []string{"RequiredBy", "BoundBy", "ConsistsOf", "RequisiteOf"} {
					for _, other := range m.Related(name, property) {
						if !slices.Contains(seen, other) {
							seen = append(seen, other)
							if up(other) {
								next, out = append(next, other), append(out, other)
							}
						}
					}
				}
			}
			level = next
		}
	})
	slices.Sort(out)
	return out, nil
}

// Triggers implements [daemon.DependencyReader].
func (c conn) Triggers(_ context.Context, names []string) (out []systemd.Unit, err error) {
	c.effect("read triggers", func() {
		var all []string
		for _, name := range names {
			all = append(all, c.p.w.pid1.Related(name, "TriggeredBy")...)
		}
		slices.Sort(all)
		for _, u := range c.list(slices.Compact(all)) {
			if u.Up() && u.Load == "loaded" {
				out = append(out, u)
			}
		}
	})
	return out, nil
}

// OrderedAfter implements [daemon.OrderReader].
func (c conn) OrderedAfter(_ context.Context, unit, first string, others []string) (is bool, err error) {
	c.effect("read the order of "+unit, func() {
		seen := []string{unit}
		for i := 0; i < len(seen) && !is; i++ {
			for _, name := range c.p.w.pid1.Related(seen[i], "After") {
				is = is || name == first
				if slices.Contains(others, name) && !slices.Contains(seen, name) {
					seen = append(seen, name)
				}
			}
		}
	})
	return is, nil
}

// OrderingPath implements [daemon.OrderReader].
func (conn) OrderingPath(context.Context, string, []string) ([]string, error) { return nil, nil }

// request queues a job.
func (c conn) request(kind, name, mode string) (id uint64, err error) {
	c.effect(kind+" "+name, func() {
		id, err = c.p.w.pid1.Request(kind, name, mode)
	})
	if errors.Is(err, pid1.ErrCyclic) {
		err = systemd.ErrCyclic
	}
	return id, err
}

// Restart implements [daemon.UnitController].
func (c conn) Restart(ctx context.Context, name string) (systemd.Unit, error) {
	var before systemd.Unit
	c.effect("read "+name, func() { before = c.unitOf(name) })
	id, err := c.request("restart", name, "replace")
	if err != nil {
		return before, fmt.Errorf("cannot restart %s: %w", name, err)
	}
	return c.await(ctx, before, id)
}

// await waits for the end of a run.
func (c conn) await(ctx context.Context, before systemd.Unit, id uint64) (now systemd.Unit, err error) {
	w := c.p.w
	err = w.wait(ctx, c.p, func() bool {
		u := c.unitOf(before.Name)
		return (id == 0 || !w.pid1.HasJob(id)) && u.Settled() && (u.Invocation != before.Invocation || id != 0)
	})
	c.effect("read the end of the run", func() { now = c.unitOf(before.Name) })
	if err != nil {
		return now, fmt.Errorf("the restart of %s is not over: %w", before.Name, err)
	}
	if now.Invocation == before.Invocation {
		return now, &systemd.JobError{Unit: before.Name, Result: "canceled"}
	}
	return now, nil
}

// RestartAround implements [daemon.UnitController].
func (c conn) RestartAround(ctx context.Context, change systemd.Change, queued func(missed error)) (systemd.Unit, error) {
	var before systemd.Unit
	c.effect("read "+change.Run, func() { before = c.unitOf(change.Run) })
	var missed error
	for _, unit := range change.First {
		if _, err := c.request("try-restart", unit, "replace"); err != nil {
			missed = errors.Join(missed, err)
		}
	}
	id := uint64(0)
	var err error
	if change.Gate == "" {
		id, err = c.request("restart", change.Run, "replace")
	} else {
		_, err = c.request("restart", change.Gate, "replace")
	}
	if err == nil && change.Gate != "" {
		for _, unit := range change.Units {
			if _, err := c.request("try-restart", unit, "replace"); err != nil {
				missed = errors.Join(missed, err)
			}
		}
	}
	queued(missed)
	if err != nil {
		return before, err
	}
	return c.await(ctx, before, id)
}

// Start implements [daemon.UnitController].
func (c conn) Start(_ context.Context, name string) error {
	_, err := c.request("start", name, "fail")
	return err
}

// ResetFailed implements [daemon.UnitController].
func (c conn) ResetFailed(_ context.Context, name string) error {
	c.effect("reset-failed "+name, func() { c.p.w.pid1.ResetFailed(name) })
	return nil
}

// Pin implements [daemon.UnitPinner].
func (c conn) Pin(context.Context, []string) error {
	c.effect("pin", func() {})
	return nil
}

// Unpin implements [daemon.UnitPinner].
func (c conn) Unpin(context.Context) error {
	c.effect("unpin", func() {})
	return nil
}

// Reload implements [daemon.Reloader].
func (c conn) Reload(context.Context) error {
	c.effect("daemon-reload", func() { c.p.w.generate() })
	return nil
}
