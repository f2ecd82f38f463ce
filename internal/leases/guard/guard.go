package guard

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"dcm/internal/engine/host"
	"dcm/internal/engine/runstate"
	"dcm/internal/leases/exclusive"
	"dcm/internal/linux/unitname"
)

// OffReason is the reason, after `dcm guard off`, why leases are not exclusive.
const OffReason = "an administrator has switched the guard off"

// IsOff reports whether an administrator has switched the guard off.
func IsOff(h *host.Host) bool {
	_, err := os.Stat(h.GuardOff())
	return err == nil
}

// noNodesReason is why an exclusive partition is not in the table: its nodes are missing, or plain files as
// those of a simulated node.
const noNodesReason = "no exclusive partition has a device node (found none, want character devices)"

// State is the state of the guard.
type State string

// The states of the guard.
const (
	Loaded      State = "loaded"
	Unused      State = "unused"      // nothing is exclusive
	Off         State = "off"         // an administrator ran `dcm guard off`
	Unsupported State = "unsupported" // this kernel cannot load the guard's program, or there are no device nodes
	OutOfDate   State = "out-of-date" // its table does not match the exclusive partitions
)

// Status is the guard's state and its table.
type Status struct {
	State   State              `json:"state"`
	Why     string             `json:"why"`     // reason for the states off, unsupported and out-of-date
	Devices int                `json:"devices"` // number of devices in the table
	Table   []runstate.Guarded `json:"table"`
	All     []runstate.Cgroup  `json:"all"`  // cgroups that may open every device of the table
	Open    []string           `json:"open"` // processes that had an exclusive partition open before it was exclusive
}

// ReadStatus reads the state of the guard. If some processes could not be inspected, it returns the
// status and an error.
func ReadStatus(ctx context.Context, h *host.Host, observers []string) (Status, error) {
	state, err := runstate.ReadGuard(h.Runtime())
	if err != nil {
		return Status{}, err
	}
	if state == nil {
		state = &runstate.Guard{}
	}
	out := Status{State: Unused, Devices: state.Devices, Table: append([]runstate.Guarded{}, state.Table...), All: append([]runstate.Cgroup{}, state.All...), Open: []string{}}
	if IsOff(h) {
		out.State, out.Why = Off, OffReason
		return out, nil
	}
	var due string
	if h.Here() {
		if due, err = Due(ctx, h, observers); err != nil {
			return out, err
		}
	}
	out.State, out.Why = stateOf(*state, due, h.Here() && Needed(h))
	if !h.Here() {
		return out, nil
	}
	open, err := Intruders(ctx, h, func(string) bool { return true })
	out.Open = append(out.Open, open...)
	return out, err
}

// stateOf returns the state of the guard with its reason. due is the result of [Due], and needed that of [Needed].
func stateOf(state runstate.Guard, due string, needed bool) (State, string) {
	switch {
	case due != "":
		return OutOfDate, due
	case state.Why != "":
		return Unsupported, state.Why
	case state.Loaded:
		return Loaded, ""
	case needed: // the wanted table is empty, else the guard would be due
		return Unsupported, noNodesReason
	}
	return Unused, ""
}

// Needed reports whether a reservation or a lease is exclusive, or whether the guard is loaded.
func Needed(h *host.Host) bool {
	state, err := runstate.ReadGuard(h.Runtime())
	if err == nil && state != nil && (state.Loaded || state.Changing) {
		return true
	}
	reserved, err := runstate.ReadReservations(h.Runtime())
	if err != nil || reserved == nil {
		reserved = &runstate.Reserved{}
	}
	return exclusive.Any(reserved.Reservations, host.LeaseUnits(h))
}

// Due returns why dcm-guard.service has to run: the table that it has read back from the kernel does
// not match the exclusive partitions. It returns "" if the table is correct, or if another run would
// not help: the guard is switched off, or this kernel does not support it. observers are the
// services that may open every partition.
func Due(ctx context.Context, h *host.Host, observers []string) (string, error) {
	return DueFor(ctx, h, observers, func(string) bool { return true })
}

// DueFor is [Due] for the part of the table whose holders the function selects.
func DueFor(ctx context.Context, h *host.Host, observers []string, holder func(string) bool) (string, error) {
	state, err := runstate.ReadGuard(h.Runtime())
	if err != nil || IsOff(h) {
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
	case state == nil && !exclusive.Any(reserved.Reservations, host.LeaseUnits(h)):
		if _, err := os.Stat(h.Path(pinned)); err == nil {
			return "the guard is loaded, and its state is not known", nil
		}
		return "", nil
	case state == nil:
		return "dcm-guard has not run yet", nil
	case state.Changing && state.Failure != "":
		return "dcm-guard failed: " + state.Failure, nil
	case state.Changing:
		return "dcm-guard was interrupted", nil
	case !exclusive.Any(reserved.Reservations, host.LeaseUnits(h)):
		if state.Loaded {
			return "the guard is loaded, and nothing is exclusive", nil
		}
		return "", nil
	case state.Why != "":
		return "", nil
	}
	want, err := wantedTable(ctx, h, observers)
	if err != nil {
		return "", err
	}
	return difference(h, *state, want, holder), nil
}

// pinned is the file of the guard's program while it is loaded.
const pinned = "sys/fs/bpf/dcm/program"

// difference describes the difference between the table that dcm-guard has read back and the wanted
// one, "" if there is none.
func difference(h *host.Host, state runstate.Guard, want runstate.GuardTable, holder func(string) bool) string {
	_, err := os.Stat(h.Path(pinned))
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

// wantedTable returns the table for the units that are below dcm.slice now. It queries PID 1.
func wantedTable(ctx context.Context, h *host.Host, observers []string) (runstate.GuardTable, error) {
	parts, err := runstate.ReadPartitions(h.Runtime())
	if err != nil || parts == nil {
		return runstate.GuardTable{}, err
	}
	conn, err := h.Dial(ctx)
	if err != nil {
		return runstate.GuardTable{}, err
	}
	defer conn.Close()
	inSlice, err := conn.Cgroups.UnitsInSlice(ctx, unitname.Slice, true)
	if err != nil {
		return runstate.GuardTable{}, err
	}
	return exclusive.Host{Root: h.Path(), Observers: observers}.Wanted(ctx, conn.Cgroups, *parts, inSlice)
}

// Intruders names the processes that have an exclusive partition open and are not in a cgroup of its
// holder. They opened it before it was exclusive. holder selects the holders whose partitions are
// checked. Call Intruders after the guard is loaded: then no other process can open the partition
// later.
func Intruders(ctx context.Context, h *host.Host, holder func(string) bool) ([]string, error) {
	state, err := runstate.ReadGuard(h.Runtime())
	if err != nil || state == nil || !state.Loaded {
		return nil, err
	}
	table := state.Only(holder)
	if len(table.Table) == 0 {
		return nil, nil
	}
	holders, err := host.Holders(ctx, h)
	return exclusive.Intruders(table, holders, func(pid int) (string, error) { return cgroupOf(h, pid) }), err
}

// cgroupOf returns the path of a process's cgroup in the unified hierarchy.
func cgroupOf(h *host.Host, pid int) (string, error) {
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
