package systemd

import (
	"context"
	"slices"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"dcm/internal/linux/unitname"
)

// Availability is a loaded unit, and whether it is available or should be.
type Availability struct {
	Unit
	ActiveFor time.Duration // how long it has been active; 0 if it is not active
	WantedBy  string        // of an inactive unit: an active unit that wants or requires it; "" if there is none
}

// Availability reads the loaded units whose names match one of the patterns, in which * is any text. They
// are in the order of their names, without dcm's own.
func (u Units) Availability(ctx context.Context, patterns []string) ([]Availability, error) {
	if len(patterns) == 0 {
		return nil, nil // without patterns PID 1 lists all units
	}
	escaped := make([]string, len(patterns))
	for i, p := range patterns {
		escaped[i] = strings.ReplaceAll(p, `\`, `\\`)
	}
	list, err := u.t.matching(ctx, nil, escaped...)
	if err != nil {
		return nil, err
	}
	list = slices.DeleteFunc(list, func(l listed) bool { return unitname.Own(l.unit.ID) })
	out := make([]Availability, len(list))
	err = each(len(list), func(i int) error {
		out[i] = Availability{Unit: list[i].unit}
		return u.addAvailability(ctx, &out[i])
	})
	return out, err
}

// Since returns when units became active, by name. A unit that was never active is absent.
func (u Units) Since(ctx context.Context, names []string) (map[string]time.Time, error) {
	began := make([]uint64, len(names)) // microseconds
	err := each(len(names), func(i int) error {
		return u.t.property(ctx, names[i], unitInterface, "ActiveEnterTimestamp", &began[i])
	})
	out := make(map[string]time.Time)
	for i, name := range names {
		if began[i] > 0 {
			out[name] = time.UnixMicro(int64(began[i]))
		}
	}
	return out, err
}

func (u Units) addAvailability(ctx context.Context, a *Availability) error {
	switch {
	case a.Active == "active":
		var since uint64
		if err := u.t.property(ctx, a.Name, unitInterface, "ActiveEnterTimestampMonotonic", &since); err != nil {
			return err
		}
		now, err := sinceBoot()
		a.ActiveFor = max(now-time.Duration(since)*time.Microsecond, 0)
		return err
	case a.Active != "inactive":
		return nil
	}
	if err := u.read(ctx, &a.Unit, Inactive); err != nil || a.Done() {
		return err
	}
	var met bool
	var tried uint64
	var wants, requires []string
	err := u.t.properties(ctx, a.Name,
		wanted{unitInterface, "ConditionResult", &met},
		wanted{unitInterface, "ConditionTimestampMonotonic", &tried},
		wanted{unitInterface, "WantedBy", &wants},
		wanted{unitInterface, "RequiredBy", &requires})
	if err != nil || tried > 0 && !met {
		return err // a condition keeps it from running
	}
	by, err := u.List(ctx, append(wants, requires...), States)
	if i := slices.IndexFunc(by, func(b Unit) bool { return b.Active == "active" }); i >= 0 {
		a.WantedBy = by[i].ID
	}
	return err
}

// sinceBoot returns the time of CLOCK_MONOTONIC, which PID 1 has in its timestamps.
func sinceBoot() (time.Duration, error) {
	var now unix.Timespec
	err := unix.ClockGettime(unix.CLOCK_MONOTONIC, &now)
	return time.Duration(now.Nano()), err
}
