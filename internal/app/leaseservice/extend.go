package leaseservice

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"time"

	"dcm/internal/engine/host"
	"dcm/internal/linux/atomicfile"
	"dcm/internal/linux/systemd"
	"dcm/internal/linux/unitname"
)

// transientDir has the files of transient units. PID 1 removes the drop-ins of a unit there when the
// unit ends.
const transientDir = "/run/systemd/transient"

// limitFile is the drop-in with the time limit of a lease that was extended. It has the name that
// systemctl set-property would use.
const limitFile = "50-RuntimeMaxSec.conf"

// Extend sets the time limit of a lease. PID 1 sets no RuntimeMaxSec= of a scope that has started
// (bus_scope_set_property in systemd). But it reads a drop-in when it loads its units again, and counts
// the limit from the start of the scope. The daemon has no permission to write the drop-in, so a
// transient service writes it.
func (s scopes) Extend(ctx context.Context, unit string, limit time.Duration) error {
	ctx, cancel := context.WithTimeout(ctx, HostTimeout)
	defer cancel()
	conn, err := s.host.Dial(ctx)
	if err != nil {
		return err
	}
	defer conn.Close()
	lease, _ := unitname.ParseLease(unit)
	err = conn.Transients.RunService(ctx, systemd.Service{
		Name:        fmt.Sprintf("dcm-extend-%d-%s-%d.service", lease.UID, lease.ID, time.Now().UnixNano()),
		Description: "Extend " + unit,
		Command:     []string{"/usr/libexec/dcm/dcm-service", "extend", unit, strconv.FormatInt(limit.Microseconds(), 10)},
		Extra:       append(confinement(), systemd.Property{Name: "ReadWritePaths", Value: []string{transientDir}}),
	})
	if err != nil {
		return fmt.Errorf("cannot extend %s: %w", unit, err)
	}
	if err := s.reloads.reload(ctx); err != nil {
		return fmt.Errorf("cannot extend %s: %w", unit, err)
	}
	terms, err := s.Terms(ctx, []string{unit})
	if now, active := terms[unit]; err == nil && active && now.Limit != limit {
		err = fmt.Errorf("cannot extend %s: systemd has not taken over the time limit (found %s, want %s)", unit, now.Limit, limit)
	}
	return err
}

// WriteLimit writes the drop-in with the time limit of a lease, in microseconds. The transient service
// of [scopes.Extend] calls it.
func WriteLimit(h *host.Host, unit, limit string) error {
	microseconds, err := strconv.ParseUint(limit, 10, 63)
	if err != nil || microseconds == 0 {
		return fmt.Errorf("invalid time limit (found %q, want a number of microseconds)", limit)
	}
	if !isLease(unit) {
		return fmt.Errorf("%q is not the name of a lease", unit)
	}
	file := h.Path(transientDir, unit)
	dir := file + ".d"
	if _, err := os.Stat(file); err != nil {
		return fmt.Errorf("the lease has ended: %w", err)
	}
	if err := os.Mkdir(dir, 0o755); err != nil && !errors.Is(err, fs.ErrExist) {
		return err
	}
	err = atomicfile.Write(filepath.Join(dir, limitFile), fmt.Appendf(nil, "[Scope]\nRuntimeMaxSec=%dus\n", microseconds), atomicfile.Options{Mode: 0o644})
	if _, gone := os.Stat(file); errors.Is(gone, fs.ErrNotExist) { // PID 1 removes only drop-ins that it has read
		return errors.Join(fmt.Errorf("the lease has ended: %w", gone), os.RemoveAll(dir))
	}
	return err
}
