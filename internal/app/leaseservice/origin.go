package leaseservice

import (
	"context"
	"maps"
	"os"
	"slices"
	"sync"
	"syscall"

	"dcm/internal/engine/host"
	"dcm/internal/leases/lease"
	"dcm/internal/linux/systemd"
)

// origin is what PID 1 reports of the units of a process that it moves into a scope.
type origin struct {
	usePIDFD   bool               // PID 1 accepts pidfds
	properties []systemd.Property // that the scope needs, so that the process is stopped as before
	lost       []string           // settings that no longer apply to the process, see [systemd.Cgroups.Filters]
	unknown    error              // why lost is not complete
}

// readOrigin reads the origin of a process in a cgroup. It takes five calls or more.
func readOrigin(ctx context.Context, conn *systemd.Conn, cgroup string) (o origin, err error) {
	if o.usePIDFD, err = conn.Transients.PIDFDs(ctx); err != nil {
		return o, err
	}
	if o.properties, err = conn.Processes.Origin(ctx, cgroup, lease.Made); err != nil {
		return o, err
	}
	// The devices of the lease that the process leaves are not counted as lost.
	o.lost, o.unknown = conn.Cgroups.Filters(ctx, slices.DeleteFunc(systemd.UnitsOf(cgroup), lease.Made))
	return o, nil
}

// originCache keeps origins. A user who starts many leases starts them from one cgroup, and
// an origin takes PID 1 more time than a scope.
//
// An origin changes only when PID 1 loads its units again, when systemctl set-property writes
// a drop-in, and when another unit gets the name, which then has another cgroup directory. It
// is not kept while a service is being stopped: then PID 1 stops no scope with the service.
type originCache struct {
	mu     sync.Mutex
	loaded uint64 // see [systemd.Manager.LoadedAt]; of known
	known  map[cgroupID]origin
}

// cgroupID identifies a cgroup. The kernel does not use the number of a directory again.
type cgroupID struct {
	path  string
	inode uint64
}

// maxOrigins is the number of origins that are kept.
const maxOrigins = 256

// read returns the origin of a process in a cgroup. loaded returns when PID 1 last loaded its units.
func (c *originCache) read(ctx context.Context, h *host.Host, conn *systemd.Conn, cgroup string, loaded func() (uint64, error)) (origin, error) {
	at, err := loaded()
	if err != nil {
		return origin{}, err
	}
	id, ok := identify(h, cgroup)
	if ok {
		ok, err = steady(ctx, h, conn, cgroup)
	}
	if err != nil || !ok {
		return readOrigin(ctx, conn, cgroup)
	}
	if o, known := c.get(id, at); known {
		return o, nil
	}
	o, err := readOrigin(ctx, conn, cgroup)
	if err == nil && o.unknown == nil {
		c.put(id, at, o)
	}
	return o, err
}

func identify(h *host.Host, cgroup string) (cgroupID, bool) {
	info, err := os.Stat(h.Path("sys/fs/cgroup", cgroup))
	if err != nil {
		return cgroupID{}, false
	}
	return cgroupID{cgroup, info.Sys().(*syscall.Stat_t).Ino}, true
}

// steady reports whether the origin of a cgroup can be cached: its unit is active, and
// systemctl set-property has changed none of its units.
func steady(ctx context.Context, h *host.Host, conn *systemd.Conn, cgroup string) (bool, error) {
	units := systemd.UnitsOf(cgroup)
	if len(units) == 0 || slices.ContainsFunc(units, editedUnits(h)) {
		return false, nil
	}
	list, err := conn.Units.List(ctx, units[len(units)-1:], systemd.States)
	return err == nil && list[0].Active == "active", err
}

func (c *originCache) get(id cgroupID, loaded uint64) (o origin, known bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.loaded == loaded {
		o, known = c.known[id]
	}
	return o, known
}

func (c *originCache) put(id cgroupID, loaded uint64, o origin) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.loaded != loaded || c.known == nil || len(c.known) >= maxOrigins {
		c.loaded, c.known = loaded, make(map[cgroupID]origin)
	}
	// A run of a service replaces the origin of the one before.
	maps.DeleteFunc(c.known, func(other cgroupID, _ origin) bool { return other.path == id.path })
	c.known[id] = o
}
