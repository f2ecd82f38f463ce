// Command dcm-guard keeps what is reserved exclusively for those who have it, by the
// program of package dcm/internal/guard. It is the only program of dcm that may load
// one, runs for a moment when something has changed, and holds no state: what is
// exclusive stands in /run/dcm/partitions.json and in the names of PID 1's units.
//
//	dcm-guard set    guard what is exclusive now, and limit the memory of those who
//	                 share; dcm-guard.service runs this
//	dcm-guard empty  guard nothing while the GPUs are partitioned, but all that was if
//	                 this ends with the slice of the holders
//	dcm-guard off    take the guard out of the kernel until it is set again
//	dcm-guard enter NAME UNIT
//	                 count the instances that share a reservation, and limit the memory
//	                 of this one; the units' ExecStartPre= runs this
//
// Exit status: 0 done, or told in /run/dcm/guard.json why it cannot be; 1 failed; 64
// usage.
package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"time"

	"golang.org/x/sys/unix"

	"dcm/internal/dmem"
	"dcm/internal/guard"
	"dcm/internal/journal"
	"dcm/internal/lease"
	"dcm/internal/report"
	"dcm/internal/systemd"
	"dcm/internal/unitname"
)

const (
	runtime = "/run/dcm"
	// asking is how long PID 1 may take to say who holds leases.
	asking = 30 * time.Second
)

func main() {
	os.Exit(run(os.Args[1:], journal.Log(os.Stderr, "dcm-guard")))
}

func run(args []string, log *slog.Logger) int {
	if len(args) == 3 && args[0] == "enter" {
		return enter(args[1], args[2])
	}
	if len(args) != 1 || args[0] != "set" && args[0] != "empty" && args[0] != "off" {
		fmt.Fprintln(os.Stderr, "usage: dcm-guard set | empty | off | enter NAME UNIT; systemd runs it")
		return 64
	}
	g := guard.Guard{Cgroups: "/sys/fs/cgroup", Pins: "/sys/fs/bpf/dcm"}
	state, err := act(args[0], g)
	if unsupported, ok := errors.AsType[*guard.UnsupportedError](err); ok {
		// Whoever reserved something exclusively is told at each look; the journal once.
		if before, _ := report.ReadGuard(runtime); before == nil || before.Why != unsupported.Error() {
			log.Warn("what is reserved exclusively is confined, and not exclusive: " + unsupported.Error())
		}
		state.Why, err = unsupported.Error(), nil
	}
	if err == nil {
		err = report.WriteGuard(runtime, state)
	}
	if err != nil {
		log.Error(err.Error())
		return 1
	}
	return 0
}

func act(verb string, g guard.Guard) (report.Guard, error) {
	if verb == "off" {
		return report.Guard{}, g.Off()
	}
	var state report.Guard
	var devices []guard.Device
	if verb == "empty" && g.Loaded() {
		if before, err := report.ReadGuard(runtime); err == nil && before != nil && withSlice() {
			return *before, nil
		}
	}
	if verb == "set" {
		w, err := look()
		if err != nil {
			return state, err
		}
		state.Uncapped = w.cap(dmem.Tree{Root: g.Cgroups})
		if devices, err = w.exclusive(); err != nil {
			return state, err
		}
	}
	// Where nothing is exclusive, no program is asked at every open of a device.
	if len(devices) == 0 && !g.Loaded() {
		if verb == "empty" {
			return refused(), nil
		}
		return state, nil
	}
	if err := g.Set(unitname.Slice, devices); err != nil {
		return state, err
	}
	state.Loaded, state.Devices = true, len(devices)
	return state, nil
}

// withSlice tells whether the guard is stopped because the holders' slice is. Then nobody
// is about to partition the GPUs, and what was exclusive stays closed to all until the
// guard is set for the slice that comes next. If that cannot be told it is not so: a run
// must not be kept out of what it changes.
func withSlice() bool {
	ctx, cancel := context.WithTimeout(context.Background(), asking)
	defer cancel()
	conn, err := systemd.Dial(ctx)
	if err != nil {
		return false
	}
	defer conn.Close()
	units, err := conn.Glance(ctx, []string{unitname.Slice, unitname.Apply, unitname.Reserve})
	return err == nil && sliceAlone(units)
}

// sliceAlone tells whether of these units the slice alone has a job.
func sliceAlone(units []systemd.Unit) bool {
	slice := false
	for _, u := range units {
		if u.Job && u.Name != unitname.Slice {
			return false
		}
		slice = slice || u.Job
	}
	return slice
}

// refused is what was told before where no guard could be loaded: a run of
// dcm-apply.service, which has the table emptied and filled, is no news of that.
func refused() report.Guard {
	before, err := report.ReadGuard(runtime)
	if err != nil || before == nil {
		return report.Guard{}
	}
	return report.Guard{Why: before.Why, Uncapped: before.Uncapped}
}

// world is what there is and who has it.
type world struct {
	parts   report.Partitions
	tenants []systemd.Tenant
}

// look asks PID 1 who is there, unless there is nothing to have.
func look() (world, error) {
	p, err := report.ReadPartitions(runtime)
	if err != nil || p == nil {
		return world{}, err
	}
	ctx, cancel := context.WithTimeout(context.Background(), asking)
	defer cancel()
	conn, err := systemd.Dial(ctx)
	if err != nil {
		return world{}, err
	}
	defer conn.Close()
	tenants, err := conn.Tenants(ctx, unitname.Slice)
	return world{*p, tenants}, err
}

// exclusive lists the devices of exclusive reservations, whether their units are up or
// not, and of exclusive leases.
func (w world) exclusive() ([]guard.Device, error) {
	var out []guard.Device
	for _, path := range lease.ExclusiveNodes(w.parts, allowed(w.tenants)) {
		var st unix.Stat_t
		switch err := unix.Stat(path, &st); {
		case errors.Is(err, fs.ErrNotExist): // nobody can open it
		case err != nil:
			return nil, &os.PathError{Op: "stat", Path: path, Err: err}
		case st.Mode&unix.S_IFMT == unix.S_IFCHR:
			out = append(out, guard.Device{Major: unix.Major(st.Rdev), Minor: unix.Minor(st.Rdev)})
		}
	}
	return out, nil
}

func allowed(tenants []systemd.Tenant) map[string][]string {
	out := make(map[string][]string)
	for _, t := range tenants {
		out[t.Unit] = t.Allow
	}
	return out
}
