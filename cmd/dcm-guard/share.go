package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"dcm/internal/engine/runstate"
	"dcm/internal/gpu/partition"
	"dcm/internal/leases/dmem"
	"dcm/internal/leases/lease"
	"dcm/internal/linux/systemd"
	"dcm/internal/linux/unitname"
	"dcm/internal/sanitize"
)

// cap limits the memory of leases that share. It returns why a sharer has no limit, or "".
// The limit of a service of a template is set at its start, see [enter].
func (w world) cap(t dmem.Tree) string {
	var errs []error
	for unit, caps := range lease.MemoryLimitsOf(w.parts, allowed(w.tenants)) {
		if _, ok := unitname.ParseLease(unit); !ok {
			continue
		}
		if err := limit(t, filepath.Join(unitname.Slice, unit), caps); err != nil && len(errs) == 0 {
			errs = append(errs, err)
		}
	}
	if len(errs) == 0 {
		errs = append(errs, t.Probe(w.reserved()))
	}
	if errs[0] == nil {
		return ""
	}
	return errs[0].Error()
}

// reserved returns the GPUs with partitions that services share.
func (w world) reserved() []partition.Address {
	var out []partition.Address
	for _, r := range w.parts.Reservations {
		for _, p := range w.parts.Parts {
			if r.Share > 0 && slices.Contains(r.Partitions, p.Name) {
				out = append(out, partition.Address(p.GPU))
			}
		}
	}
	return out
}

func limit(t dmem.Tree, cgroup string, caps lease.MemoryLimits) error {
	if len(caps) == 0 {
		return errors.New("the size of a partition's memory is unknown")
	}
	return t.Cap(cgroup, caps)
}

// enter permits one more instance unless the limit of sharers is reached. A failed memory
// limit is logged and does not prevent the start.
func enter(name, unit string) int {
	w, err := look()
	var r *runstate.Reservation
	if err == nil {
		if r = lease.SharedBy(w.parts, unit); r == nil || r.Name != name {
			err = errors.New("not an instance of the reservation's template")
		}
	}
	if err == nil {
		err = w.count(*r, unit)
	}
	if err != nil {
		say(3, fmt.Sprintf("%s: cannot share reservation %s: %v", unit, name, err))
		return 1
	}
	caps := lease.MemoryLimitsOf(w.parts, map[string][]string{unit: nil})[unit]
	cgroup, err := own()
	if err == nil {
		err = limit(dmem.Tree{Root: "/sys/fs/cgroup"}, cgroup, caps)
	}
	if err != nil {
		say(4, "shared, not capped: "+err.Error())
		return 0
	}
	say(6, fmt.Sprintf("shared by at most %d, memory limit %s", r.Share, caps))
	return 0
}

// say writes a journal line with a level of sd-daemon(3) to stderr, the stream of the unit.
// A datagram would lose the unit if the sender has ended.
func say(level int, text string) { fmt.Fprintf(os.Stderr, "<%d>%s\n", level, sanitize.Text(text)) }

// count refuses a unit if enough others were started before it. Units that start
// concurrently agree on the order by PID 1's clock.
func (w world) count(r runstate.Reservation, unit string) error {
	ctx, cancel := context.WithTimeout(context.Background(), readTimeout)
	defer cancel()
	conn, err := systemd.Dial(ctx)
	if err != nil {
		return err
	}
	defer conn.Close()
	type start struct {
		unit string
		at   uint64
	}
	var all []start
	for _, t := range w.tenants {
		if of := lease.SharedBy(w.parts, t.Unit); of == nil || of.Name != r.Name {
			continue
		}
		e, err := conn.Units.End(ctx, t.Unit)
		if err != nil {
			return err
		}
		all = append(all, start{t.Unit, e.Began})
	}
	slices.SortFunc(all, func(a, b start) int { return cmp.Or(cmp.Compare(a.at, b.at), strings.Compare(a.unit, b.unit)) })
	before := slices.IndexFunc(all, func(s start) bool { return s.unit == unit })
	if before < r.Share {
		return nil
	}
	names := make([]string, r.Share)
	for i := range names {
		names[i] = all[i].unit
	}
	return fmt.Errorf("limit of sharers reached (share = %d, active: %s)", r.Share, strings.Join(names, ", "))
}

// own returns the cgroup of the unit that runs this program. With Delegate=, ExecStartPre=
// runs in a cgroup below that of the unit.
func own() (string, error) {
	text, err := os.ReadFile("/proc/self/cgroup")
	if err != nil {
		return "", err
	}
	for line := range strings.Lines(string(text)) {
		if path, ok := strings.CutPrefix(strings.TrimSpace(line), "0::"); ok {
			return strings.TrimSuffix(path, "/.control"), nil
		}
	}
	return "", errors.New("the host has no unified cgroup hierarchy")
}
