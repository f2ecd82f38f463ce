package host

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"dcm/internal/engine/runstate"
	"dcm/internal/leases/exclusive"
	"dcm/internal/linux/systemd"
	"dcm/internal/linux/unitname"
)

// SwitchedOff is why nothing is exclusive after `dcm guard off`.
const SwitchedOff = "an administrator has switched the guard off"

// GuardIsOff reports whether an administrator has switched the guard off.
func (h *Host) GuardIsOff() bool {
	_, err := os.Stat(h.GuardOff())
	return err == nil
}

// GuardState is what the guard does.
type GuardState string

// The states of the guard.
const (
	GuardLoaded      GuardState = "loaded"
	GuardUnused      GuardState = "unused"      // nothing is exclusive
	GuardSwitchedOff GuardState = "off"         // by an administrator
	GuardUnsupported GuardState = "unsupported" // by this kernel
	GuardOutOfDate   GuardState = "out-of-date" // its table is not what is exclusive now
)

// GuardStatus is the guard's state and its table.
type GuardStatus struct {
	State   GuardState         `json:"state"`
	Why     string             `json:"why"` // of a state that is neither loaded nor unused
	Devices int                `json:"devices"`
	Table   []runstate.Guarded `json:"table"`
	All     []runstate.Cgroup  `json:"all"`
	Open    []string           `json:"open"` // processes that had an exclusive partition open before it was exclusive
}

// GuardStatus reads what the guard does now. It is an error, beside what was read, that not
// all processes may be looked at.
func (h *Host) GuardStatus(ctx context.Context, observers []string) (GuardStatus, error) {
	state, err := runstate.ReadGuard(h.Runtime())
	if err != nil {
		return GuardStatus{}, err
	}
	if state == nil {
		state = &runstate.Guard{}
	}
	out := GuardStatus{State: GuardUnused, Devices: state.Devices, Table: append([]runstate.Guarded{}, state.Table...), All: append([]runstate.Cgroup{}, state.All...), Open: []string{}}
	if h.GuardIsOff() {
		out.State, out.Why = GuardSwitchedOff, SwitchedOff
		return out, nil
	}
	var due string
	if h.Here() {
		if due, err = h.GuardDue(ctx, observers); err != nil {
			return out, err
		}
	}
	switch {
	case due != "":
		out.State, out.Why = GuardOutOfDate, due
	case state.Why != "":
		out.State, out.Why = GuardUnsupported, state.Why
	case state.Loaded:
		out.State = GuardLoaded
	}
	if !h.Here() {
		return out, nil
	}
	open, err := h.Intruders(ctx, func(string) bool { return true })
	out.Open = append(out.Open, open...)
	return out, err
}

// GuardNeeded reports whether something is exclusive, or guarded.
func (h *Host) GuardNeeded() bool {
	state, err := runstate.ReadGuard(h.Runtime())
	if err == nil && state != nil && (state.Loaded || state.Changing) {
		return true
	}
	reserved, err := runstate.ReadReservations(h.Runtime())
	if err != nil || reserved == nil {
		reserved = &runstate.Reserved{}
	}
	return exclusive.Any(reserved.Reservations, h.Leased())
}

// GuardDue returns why dcm-guard.service has to run: what the kernel guards, as dcm-guard
// has read it back, is not what is exclusive now. It is "" if nothing is to be done, or if
// another run would not help: the guard is switched off, or this kernel has none. observers
// are the services that may open every partition.
func (h *Host) GuardDue(ctx context.Context, observers []string) (string, error) {
	return h.guardDue(ctx, observers, func(string) bool { return true })
}

// guardDue is GuardDue for some of the holders.
func (h *Host) guardDue(ctx context.Context, observers []string, holder func(string) bool) (string, error) {
	state, err := runstate.ReadGuard(h.Runtime())
	if err != nil || h.GuardIsOff() {
		return "", err
	}
	reserved, err := runstate.ReadReservations(h.Runtime())
	if err != nil {
		return "", err
	}
	if reserved == nil {
		reserved = &runstate.Reserved{}
	}
	switch {
	case state == nil && !exclusive.Any(reserved.Reservations, h.Leased()):
		return "", nil
	case state == nil:
		return "dcm-guard has not run yet", nil
	case state.Changing:
		return "dcm-guard was interrupted", nil
	case !exclusive.Any(reserved.Reservations, h.Leased()):
		if state.Loaded {
			return "the guard is loaded, and nothing is exclusive", nil
		}
		return "", nil
	case state.Why != "":
		return "", nil
	}
	want, err := h.exclusive(ctx, observers)
	if err != nil {
		return "", err
	}
	return h.differs(*state, want, holder), nil
}

// differs compares what dcm-guard has read back with what is wanted.
func (h *Host) differs(state runstate.Guard, want runstate.GuardTable, holder func(string) bool) string {
	_, err := os.Stat(h.Path("sys/fs/bpf/dcm/program"))
	switch {
	case len(want.Table) > 0 && (!state.Loaded || errors.Is(err, fs.ErrNotExist)):
		return "the guard is not loaded"
	case !exclusive.Same(state.Only(holder), want.Only(holder)):
		return fmt.Sprintf("the guard's table is out of date (found %s, want %s)", summary(state.Only(holder)), summary(want.Only(holder)))
	}
	return ""
}

func summary(t runstate.GuardTable) string {
	holders := strings.Join(t.Holders(), ", ")
	if holders == "" {
		holders = "no holder"
	}
	return fmt.Sprintf("%d devices of %s", len(t.Table), holders)
}

// exclusive asks PID 1 for the table that is wanted now.
func (h *Host) exclusive(ctx context.Context, observers []string) (runstate.GuardTable, error) {
	parts, err := runstate.ReadPartitions(h.Runtime())
	if err != nil || parts == nil {
		return runstate.GuardTable{}, err
	}
	conn, err := h.Dial(ctx)
	if err != nil {
		return runstate.GuardTable{}, err
	}
	defer conn.Close()
	tenants, err := conn.UnitsInSlice(ctx, unitname.Slice, nil)
	if err != nil {
		return runstate.GuardTable{}, err
	}
	return exclusive.Host{Root: h.Path(), Observers: observers}.Wanted(ctx, conn, *parts, tenants)
}

// Intruders names the processes that have an exclusive partition of these holders open,
// and are not among those who may: they opened it before it was exclusive. The table has to
// be in the kernel before: a process that is not found then cannot open it later.
func (h *Host) Intruders(ctx context.Context, holder func(string) bool) ([]string, error) {
	state, err := runstate.ReadGuard(h.Runtime())
	if err != nil || state == nil || !state.Loaded {
		return nil, err
	}
	table := state.Only(holder)
	if len(table.Table) == 0 {
		return nil, nil
	}
	holders, err := h.Holders(ctx)
	return exclusive.Intruders(table, holders, h.cgroupOf), err
}

// cgroupOf returns the path of a process's cgroup in the unified hierarchy.
func (h *Host) cgroupOf(pid int) (string, error) {
	text, err := os.ReadFile(filepath.Join(h.Path("proc"), strconv.Itoa(pid), "cgroup"))
	if err != nil {
		return "", err
	}
	for line := range strings.Lines(string(text)) {
		if path, ok := strings.CutPrefix(line, "0::"); ok {
			return strings.TrimRight(path, "\n"), nil
		}
	}
	return "", errors.New("the host has no unified cgroup hierarchy")
}

// ReservationSlice returns the slice that the unit of a reservation is to run in. For a
// reservation without a unit, it is the slice below which its partitions open if they are
// exclusive.
func (h *Host) ReservationSlice(name, unit string) string {
	if unit == "" {
		return unitname.HolderSlice(name)
	}
	return systemd.ReservationSlice(name, h.ownSlice(unit, false))
}
