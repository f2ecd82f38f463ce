package leaseservice

import (
	"errors"
	"io/fs"
	"os"
	"strings"
	"sync"

	"dcm/internal/engine/host"
	"dcm/internal/leases/lease"
)

// deviceLists are the device lists of leases as PID 1 has reported them, with links resolved: to read
// them again takes a call for each lease, and to resolve them a call for each node. A scope's list is
// set when the scope starts, and systemd resolves it then. Later changes are loaded by a daemon-reload,
// or made by systemctl set-property, which leaves a drop-in.
type deviceLists struct {
	mu     sync.Mutex
	loaded uint64              // see [systemd.Manager.LoadedAt]; of known
	known  map[string][]string // by unit
}

// split returns the leases whose lists are known, and the names of the other units. edited reports
// whether systemctl set-property has changed a unit.
func (d *deviceLists) split(units []string, loaded uint64, edited func(unit string) bool) (known []lease.UnitDevices, unknown []string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, unit := range units {
		nodes, ok := d.known[unit]
		if !ok || d.loaded != loaded || edited(unit) {
			unknown = append(unknown, unit)
			continue
		}
		known = append(known, lease.UnitDevices{Unit: unit, Active: true, Allowed: nodes})
	}
	return known, unknown
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

// keep replaces the lists by those of the leases that there are now. PID 1 had loaded its units
// at that time before it reported them.
func (d *deviceLists) keep(list []lease.UnitDevices, loaded uint64) {
	known := make(map[string][]string)
	for _, u := range list {
		if isLease(u.Unit) {
			known[u.Unit] = u.Allowed
		}
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	d.known, d.loaded = known, loaded
}
