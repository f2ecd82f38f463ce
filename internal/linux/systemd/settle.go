package systemd

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"time"
)

// lastLook is how long Settle may take, when ctx has ended, to say how the units
// are then.
const lastLook = 2 * time.Second

// Settle waits until none of the units has a job or is on its way to another
// state, and returns them. When ctx ends first it returns them as they are then,
// with ctx's error.
func (c *Conn) Settle(ctx context.Context, names []string) ([]Unit, error) {
	ear, err := c.subscribe(ctx, anyUnitRules())
	if err == nil {
		defer c.hub.forget(ear)
		ear.rests()
		err = c.settle(ctx, names, ear)
	}
	for err == nil {
		units, failed := c.Units(ctx, names)
		if failed != nil || !slices.ContainsFunc(units, Unit.moves) {
			return units, failed
		}
		err = c.settle(ctx, names, ear) // one has moved since
	}
	late, cancel := context.WithTimeout(context.WithoutCancel(ctx), lastLook)
	defer cancel()
	units, _ := c.Units(late, names)
	return units, err
}

// settle reads only the list, and of the list only what has not settled, since
// each change of each unit makes it read again.
func (c *Conn) settle(ctx context.Context, names []string, ear *subscription) error {
	for {
		moving, err := c.moving(ctx, names)
		if err != nil || len(moving) == 0 {
			return err
		}
		for len(moving) > 0 {
			ear.follow(moving...)
			if moving, err = c.moving(ctx, moving); err != nil {
				return err
			}
			if len(moving) == 0 {
				break // those that had settled may be moving by now
			}
			select {
			case <-ctx.Done():
				return fmt.Errorf("%d of the units have not settled, first %s: %w", len(moving), moving[0], ctx.Err())
			case <-ear.wake:
			}
		}
	}
}

// moving returns PID 1's names of those of the units that have not settled.
func (c *Conn) moving(ctx context.Context, names []string) ([]string, error) {
	list, err := c.list(ctx, names)
	var out []string
	for _, l := range list {
		if !l.unit.Settled() {
			out = append(out, l.primary)
		}
	}
	return out, err
}

// Changed returns when one of the units has another ActiveState than it had, by its
// name, or with ctx's error. Meanwhile it hears of these units alone.
func (c *Conn) Changed(ctx context.Context, had map[string]string) error {
	names := slices.Sorted(maps.Keys(had))
	var rules []rule
	for _, name := range names {
		rules = append(rules, unitRules(name)...)
	}
	ear, err := c.subscribe(ctx, rules)
	if err != nil {
		return err
	}
	defer c.hub.forget(ear)
	for {
		list, err := c.list(ctx, names)
		if err != nil {
			return err
		}
		for _, l := range list {
			if l.unit.Active != had[l.unit.Name] {
				return nil
			}
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-ear.wake:
		}
	}
}

// Failed returns when a unit is failed, or with ctx's error. Meanwhile it hears of this unit
// alone.
func (c *Conn) Failed(ctx context.Context, name string) error {
	ear, err := c.subscribe(ctx, unitRules(name))
	if err != nil {
		return err
	}
	defer c.hub.forget(ear)
	for {
		list, err := c.list(ctx, []string{name})
		if err != nil || list[0].unit.Active == "failed" {
			return err
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-ear.wake:
		}
	}
}
