package leases

import (
	"context"
	"errors"
	"fmt"
	"os/user"
	"strconv"

	"golang.org/x/sys/unix"

	"dcm/internal/app/cli/client"
	"dcm/internal/engine/host"
	"dcm/internal/exitcode"
	"dcm/internal/frontends/dbusapi"
	"dcm/internal/gpu/partition"
	"dcm/internal/leases/lease"
)

// acquire requests a lease. It may repeat the request: a process that is alone in a lease
// exchanges it for the new one.
func acquire(ctx context.Context, h *host.Host, w dbusapi.Request, note func(string)) (dbusapi.Lease, error) {
	waiting := dbusapi.RetryPolicy{Limit: client.DaemonTimeout}
	if w.Wait {
		waiting = dbusapi.RetryPolicy{Note: note}
		w.Queued = func(p dbusapi.QueuePosition) { note(waits(p)) }
	}
	var l dbusapi.Lease
	limit := newWaitLimit(ctx, w.WaitLimit)
	defer limit.stop()
	err := client.CallDaemon(limit.ctx, h, waiting, func(c *dbusapi.Client) (err error) {
		w.WaitLimit = limit.left()
		l, err = c.Acquire(limit.ctx, w)
		return err
	})
	switch {
	case ctx.Err() != nil:
		return dbusapi.Lease{}, errors.New("no lease: interrupted")
	case err != nil && limit.ctx.Err() != nil:
		return dbusapi.Lease{}, exitcode.With(exitcode.Transient, errors.New("the time to wait is over: dcm.service does not answer"))
	case errors.Is(err, dbusapi.ErrAbsent):
		return dbusapi.Lease{}, fmt.Errorf("no lease: %w", err)
	case errors.Is(err, dbusapi.ErrDenied):
		return dbusapi.Lease{}, fmt.Errorf("no lease: %w\nhint: leases are for root, members of the group dcm, and users with a polkit authorisation", err)
	case dbusapi.IsImpossible(err):
		return dbusapi.Lease{}, exitcode.With(exitcode.Permanent, err)
	}
	return l, err
}

// waits is the message for a waiting request.
func waits(p dbusapi.QueuePosition) string {
	return fmt.Sprintf("waiting at position %d of %d in the queue: %s", p.At, p.Of, p.Reason)
}

// mayOpen returns an error if the permissions of the common device node exclude the user and
// the requested partitions need it. A device list, or a driver that is not loaded, is not its
// concern.
func mayOpen(h *host.Host, w dbusapi.Request) error {
	switch {
	case partition.IsMode(w.Make):
		return access(h.Path(lease.CommonNode))
	case w.Make != "":
		return nil
	}
	sought, err := partition.ParseCriteria(w.Vendor, w.Mode)
	if err != nil || !lease.MayNeedCommonNode(sought) {
		return err
	}
	return access(h.Path(lease.CommonNode))
}

func access(node string) error {
	err := unix.Faccessat(unix.AT_FDCWD, node, unix.R_OK|unix.W_OK, unix.AT_EACCESS)
	if !errors.Is(err, unix.EACCES) {
		return nil
	}
	group := "GROUP"
	var st unix.Stat_t
	if unix.Stat(node, &st) == nil {
		group = groupName(st.Gid)
	}
	return fmt.Errorf("%s: permission denied, and a lease does not change file permissions\nhint: sudo usermod --append --groups %s NAME, then log in again", node, group)
}

func groupName(gid uint32) string {
	id := strconv.FormatUint(uint64(gid), 10)
	g, err := user.LookupGroupId(id)
	if err != nil {
		return id
	}
	return g.Name
}
