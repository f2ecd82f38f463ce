// Command dcm-guard enforces exclusive reservations with the device program of package
// dcm/internal/linux/devguard. It is the only program of dcm that may load one. It runs for a
// moment after a change and keeps no state: /run/dcm/partitions.json and the names of PID 1's
// units have it.
//
//	dcm-guard set    enforce what is exclusive now, and limit the memory of units that
//	                 share; dcm-guard.service runs this
//	dcm-guard off    unload the guard until the next set
//	dcm-guard enter NAME UNIT
//	                 count the instances that share a reservation, and limit the memory
//	                 of this one; ExecStartPre= of the units runs this
//
// Exit status: 0 success, or the reason for a failure is in /run/dcm/guard.json; 1 failure;
// 64 usage.
package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"dcm/internal/engine/runstate"
	"dcm/internal/leases/dmem"
	"dcm/internal/leases/exclusive"
	"dcm/internal/leases/lease"
	"dcm/internal/linux/devguard"
	"dcm/internal/linux/journal"
	"dcm/internal/linux/systemd"
	"dcm/internal/linux/unitname"
	"dcm/internal/sanitize"
)

const (
	runtime = "/run/dcm"
	// readTimeout limits the calls of PID 1.
	readTimeout = 30 * time.Second
)

func main() {
	os.Exit(run(os.Args[1:], journal.Log(os.Stderr, "dcm-guard")))
}

func run(args []string, log *slog.Logger) int {
	if len(args) == 3 && args[0] == "enter" {
		return enter(args[1], args[2])
	}
	if len(args) != 1 || args[0] != "set" && args[0] != "off" {
		fmt.Fprintln(os.Stderr, "usage: dcm-guard set | off | enter NAME UNIT; systemd runs it")
		return 64
	}
	g := devguard.Guard{Cgroups: "/sys/fs/cgroup", Pins: "/sys/fs/bpf/dcm"}
	before, _ := runstate.ReadGuard(runtime) // an unreadable state is replaced
	state, err := act(args[0], g, before)
	if unsupported, ok := errors.AsType[*devguard.UnsupportedError](err); ok {
		state.Why, state.Unconfined, err = unsupported.Error(), unconfined(), nil
		what := "confined, and not exclusive: "
		if state.Unconfined {
			what = "neither confined nor exclusive, and device lists of units have no effect here: "
		}
		// The status shows the reason each time; the journal gets it once.
		if before == nil || before.Why != state.Why || before.Unconfined != state.Unconfined {
			log.Warn("exclusive reservations are " + what + state.Why)
		}
	}
	if err == nil {
		err = runstate.GuardIn(runtime).Write(state)
	}
	if err != nil {
		log.Error(err.Error())
		if err := recordFailure(err); err != nil {
			log.Error("the failure is not recorded: " + err.Error())
		}
		return 1
	}
	return 0
}

// recordFailure adds the failure to the state of a change that has begun.
func recordFailure(failure error) error {
	state, err := runstate.ReadGuard(runtime)
	if err != nil || state == nil || !state.Changing {
		return err
	}
	state.Failure = failure.Error()
	return runstate.GuardIn(runtime).Write(*state)
}

// unconfined reports whether device lists of units have no effect: this service, with
// DevicePolicy=closed, has no access to partitions.
func unconfined() bool {
	p, err := runstate.ReadPartitions(runtime)
	path := func(elem ...string) string { return filepath.Join(append([]string{"/"}, elem...)...) }
	return err == nil && p != nil && lease.Reachable(path, p.Parts, nil) != ""
}

func act(verb string, g devguard.Guard, before *runstate.Guard) (runstate.Guard, error) {
	if verb == "off" {
		return runstate.Guard{}, g.Off()
	}
	w, err := look()
	if err != nil {
		return runstate.Guard{}, err
	}
	state := runstate.Guard{Uncapped: w.cap(dmem.Tree{Root: g.Cgroups})}
	// Without exclusive partitions, no program runs at an open of a device.
	if len(w.wanted.Table) == 0 {
		return state, g.Off()
	}
	if before == nil || !before.Loaded || !exclusive.Same(before.GuardTable, w.wanted) {
		state.GuardTable, state.Changing = w.wanted, true
		if err := runstate.GuardIn(runtime).Write(state); err != nil {
			return state, err
		}
	}
	state.Changing, state.GuardTable = false, runstate.GuardTable{}
	if err := set(g, w.wanted); err != nil {
		return state, err
	}
	state.Loaded, state.Devices, state.GuardTable = g.Loaded(), len(w.wanted.Table), w.wanted
	return state, nil
}

// set loads the table into the kernel and reads it back.
func set(g devguard.Guard, t runstate.GuardTable) error {
	want, err := access(t)
	if err != nil {
		return err
	}
	if err := g.Set(want); err != nil {
		return err
	}
	got, err := g.Table()
	if err != nil {
		return err
	}
	if !maps.EqualFunc(got.Devices, want.Devices, slices.Equal) || !slices.Equal(got.All, want.All) {
		return fmt.Errorf("the kernel's table is not what was written (found %d devices, want %d)", len(got.Devices), len(want.Devices))
	}
	return nil
}

// access converts the table to device numbers, sorted as [devguard.Guard.Table] sorts them.
func access(t runstate.GuardTable) (devguard.Access, error) {
	out := devguard.Access{Devices: make(map[devguard.Device][]uint64), All: numbers(t.All)}
	for _, one := range t.Table {
		var d devguard.Device
		if _, err := fmt.Sscanf(one.Device, "%d:%d", &d.Major, &d.Minor); err != nil {
			return out, fmt.Errorf("%s: not a device number (found %q): %w", one.Node, one.Device, err)
		}
		all := append(out.Devices[d], numbers(one.Cgroups)...)
		slices.Sort(all)
		out.Devices[d] = slices.Compact(all)
	}
	return out, nil
}

func numbers(list []runstate.Cgroup) []uint64 {
	var out []uint64
	for _, c := range list {
		out = append(out, c.Number)
	}
	slices.Sort(out)
	return slices.Compact(out)
}

// world is the partitions, the units that hold them, and the exclusive ones.
type world struct {
	parts   runstate.Partitions
	tenants []systemd.Tenant
	wanted  runstate.GuardTable
}

// look reads the units from PID 1 if there are partitions.
func look() (world, error) {
	p, err := runstate.ReadPartitions(runtime)
	if err != nil || p == nil {
		return world{}, err
	}
	ctx, cancel := context.WithTimeout(context.Background(), readTimeout)
	defer cancel()
	conn, err := systemd.Dial(ctx)
	if err != nil {
		return world{}, err
	}
	defer conn.Close()
	w := world{parts: *p}
	if w.tenants, err = conn.Cgroups.UnitsInSlice(ctx, unitname.Slice, true); err != nil {
		return w, err
	}
	h := exclusive.Host{Root: "/", Observers: strings.Fields(sanitize.Lines(os.Getenv(unitname.ObserversVariable)))}
	w.wanted, err = h.Wanted(ctx, conn.Cgroups, w.parts, w.tenants)
	return w, err
}

func allowed(tenants []systemd.Tenant) map[string][]string {
	out := make(map[string][]string)
	for _, t := range tenants {
		out[t.Unit] = t.Allow
	}
	return out
}
