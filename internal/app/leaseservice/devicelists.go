package leaseservice

import (
	"errors"
	"io/fs"
	"os"
	"strings"
	"sync"

	"dcm/internal/engine/host"
	"dcm/internal/linux/systemd"
)

// deviceLists are the device lists of leases as PID 1 has reported them, with links resolved: to read
// them again takes a call for each lease, and to resolve them a call for each node. A scope's list is
// set when the scope starts, and systemd resolves it then. Later changes are loaded by a daemon-reload,
// or made by systemctl set-property, which leaves a drop-in.
type deviceLists struct {
	mu     sync.Mutex
	loaded uint64              // see [systemd.Conn.LoadedAt]; of known
	known  map[string][]string // by unit
}

// of returns the nodes of a lease's DeviceAllow=. ok is false if PID 1 has to be queried.
func (d *deviceLists) of(unit string, loaded uint64) (nodes []string, ok bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.loaded == loaded {
		nodes, ok = d.known[unit]
	}
	return nodes, ok
}

// editedUnits reads which units systemctl set-property has changed: it writes drop-ins, those of
// transient units to the directory of these units (systemd.unit(5), "Unit File Load Path"). If
// that cannot be read, edited returns true for every unit.
func editedUnits(h *host.Host) (edited func(unit string) bool) {
	units := make(map[string]bool)
	for _, dir := range []string{"run/systemd/transient", "run/systemd/system.control", "etc/systemd/system.control"} {
		entries, err := os.ReadDir(h.Path(dir))
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return func(string) bool { return true }
		}
		for _, e := range entries {
			if unit, dropIns := strings.CutSuffix(e.Name(), ".d"); dropIns {
				units[unit] = true
			}
		}
	}
	return func(unit string) bool { return units[unit] }
}

// resolveLists resolves the links in the lists of units. known returns the list of a unit that is
// resolved already, and resolve the node that a path leads to.
func resolveLists(list []systemd.Tenant, known func(unit string) ([]string, bool), resolve func(path string) string) {
	for i, t := range list {
		nodes, resolved := known(t.Unit)
		if !resolved {
			nodes = make([]string, len(t.Allow))
			for j, path := range t.Allow {
				nodes[j] = resolve(path)
			}
		}
		list[i].Allow = nodes
	}
}

// keep replaces the lists by those of the leases that there are now. PID 1 had loaded its units
// at that time before it reported them.
func (d *deviceLists) keep(list []systemd.Tenant, loaded uint64) {
	known := make(map[string][]string)
	for _, t := range list {
		if isLease(t.Unit) {
			known[t.Unit] = t.Allow
		}
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	d.known, d.loaded = known, loaded
}
