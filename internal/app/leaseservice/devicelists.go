package leaseservice

import (
	"errors"
	"io/fs"
	"os"
	"sync"

	"dcm/internal/engine/host"
	"dcm/internal/linux/systemd"
)

// deviceLists are the device lists of leases as PID 1 has reported them: to read them again
// takes a call for each lease. A scope's list is set when the scope starts. Later changes are
// loaded by a daemon-reload, or made by systemctl set-property, which leaves a drop-in.
type deviceLists struct {
	mu     sync.Mutex
	loaded uint64              // see [systemd.Conn.LoadedAt]; of known
	known  map[string][]string // by unit
}

// of returns the paths of a lease's DeviceAllow=. ok is false if PID 1 has to be queried.
func (d *deviceLists) of(h *host.Host, unit string, loaded uint64) (paths []string, ok bool) {
	d.mu.Lock()
	if d.loaded == loaded {
		paths, ok = d.known[unit]
	}
	d.mu.Unlock()
	return paths, ok && !edited(h, unit)
}

// edited reports whether systemctl set-property may have changed a unit (systemd.unit(5),
// "Unit File Load Path").
func edited(h *host.Host, unit string) bool {
	for _, dir := range []string{"run/systemd/system.control", "etc/systemd/system.control"} {
		if _, err := os.Lstat(h.Path(dir, unit+".d")); !errors.Is(err, fs.ErrNotExist) {
			return true
		}
	}
	return false
}

// keep replaces the lists by those of the leases that there are now. PID 1 had loaded its units
// at that time before it reported them.
func (d *deviceLists) keep(list []systemd.Tenant, loaded uint64) {
	known := make(map[string][]string)
	for _, t := range list {
		if leased(t.Unit) {
			known[t.Unit] = t.Allow
		}
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	d.known, d.loaded = known, loaded
}
