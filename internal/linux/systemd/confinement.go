package systemd

import (
	"fmt"
	"path"
	"slices"
	"strings"

	"dcm/internal/linux/unitname"
)

// closed is the DevicePolicy= of confined units: they can open standard pseudo devices and the
// nodes in DeviceAllow=, and no others.
const closed = "closed"

// Reserved is a service with a reservation. It is also a client.
type Reserved struct {
	Unit           string
	Name           string // name of its directory below /dev/dcm
	Count          int    // number of links in it; 0 if the reservation is not satisfied, then the unit must not start
	Whole          bool   // it has all partitions of its GPUs, so the number of links depends on the mode
	Exclusive      bool   // no other unit can open the partitions
	CompanionLinks int    // number of links, in a second directory, to companion nodes of the partitions
	Share          int    // the number of instances of the template Unit that may share them; 0: Unit is a service
	Maker          string // unit that creates the partition of Unit before its start and destroys it after its end; "" for none. It may have %n
	Changed        bool   // dcm-reserve.service chooses other partitions and restarts the unit

	Slice Setting // in its own files
}

// Confinement are the properties that confine a unit to its partitions.
type Confinement struct {
	Slice string   // Slice= of the unit
	Allow []string // paths of its DeviceAllow=; nil for a lease, whose DeviceAllow= is the record of its partitions
}

// Confinement returns the properties that the generator's drop-in sets for a reserved unit. unit is
// Unit or an instance of it.
func (r Reserved) Confinement(unit string) Confinement {
	c := Confinement{Slice: ReservationSlice(r.Name, r.Slice), Allow: []string{"/dev/kfd"}}
	dir := links + r.dir(unit)
	for i := range max(r.Count, 1) {
		c.Allow = append(c.Allow, fmt.Sprintf("%s/render%d", dir, i))
	}
	for i := range r.CompanionLinks {
		c.Allow = append(c.Allow, fmt.Sprintf("%s%s/render%d", dir, unitname.CompanionSuffix, i))
	}
	return c
}

// dir returns the name of the directory below /dev/dcm.
func (r Reserved) dir(unit string) string {
	if r.Maker == "" {
		return r.Name
	}
	return unitname.MadeDir(r.Name, r.Unit, unit)
}

// LeaseConfinement returns the confinement of the scope of each lease.
func LeaseConfinement() Confinement { return Confinement{Slice: unitname.Slice} }

// Confined is the actual confinement of a unit.
type Confined struct {
	Unit       string // of a template: the name of the instance
	Active     string // systemd's ActiveState
	Job        bool   // a job is queued or running
	Invocation string
	Started    uint64   // when the present run began, in µs of CLOCK_MONOTONIC
	Slice      string   // Slice=, as loaded from the unit's files
	Policy     string   // DevicePolicy=, as loaded
	Allow      []string // paths of DeviceAllow=, as loaded
	Cgroup     string   // of its processes: an active unit stays in the cgroup in which it was started
}

// Up reports whether the unit may have processes.
func (c Confined) Up() bool { return c.Active != "inactive" && c.Active != "failed" }

// Misplaced returns a message if the unit's processes are not in the slice of the confinement,
// otherwise "".
func (want Confinement) Misplaced(have Confined) string {
	if !have.Up() || have.Cgroup == "" || below(have.Cgroup, want.Slice) {
		return ""
	}
	return fmt.Sprintf("its processes run in %s, want %s", have.Cgroup, want.Slice)
}

// Differs returns how the loaded properties of the unit differ from the confinement. Additional
// nodes in DeviceAllow= are no difference unless they are nodes of GPUs.
func (want Confinement) Differs(have Confined) []string {
	var out []string
	if have.Slice != want.Slice {
		out = append(out, fmt.Sprintf("Slice=%s, want %s", have.Slice, want.Slice))
	}
	if have.Policy != closed && have.Policy != "strict" {
		return append(out, fmt.Sprintf("DevicePolicy=%s, want %s", have.Policy, closed))
	}
	for _, node := range have.Allow {
		if !want.allows(node) {
			out = append(out, fmt.Sprintf("DeviceAllow=%s, which is not reserved for it", node))
		}
	}
	if want.Allow != nil && !slices.ContainsFunc(want.Allow, func(node string) bool {
		return strings.HasPrefix(node, links) && slices.Contains(have.Allow, node)
	}) {
		out = append(out, "DeviceAllow= names none of its partitions")
	}
	return out
}

// links is the directory of the links to reserved partitions.
const links = "/dev/dcm/"

// allows reports whether the confinement permits a path of DeviceAllow=: the unit's own links
// and nodes that are not of GPUs. The number of links may differ from the reservation: a change
// of the reservation takes effect at the unit's restart.
func (want Confinement) allows(node string) bool {
	if want.Allow == nil {
		return !strings.HasPrefix(node, "char-") || !reachesGPU(node) // a lease names nodes one by one
	}
	if slices.Contains(want.Allow, node) {
		return true
	}
	own := slices.ContainsFunc(want.Allow, func(w string) bool {
		return strings.HasPrefix(w, links) && path.Dir(w) == path.Dir(node)
	})
	return own || !reachesGPU(node)
}

// reachesGPU reports whether a path of DeviceAllow=, or a pattern of driver names
// (systemd.resource-control(5)), includes nodes of GPUs.
func reachesGPU(node string) bool {
	if drivers, ok := strings.CutPrefix(node, "char-"); ok {
		return slices.ContainsFunc([]string{"drm", "kfd", "nvidia", "nvidia-caps", "nvidiactl", "nvidia-frontend", "nvidia-uvm", "226", "195"}, func(driver string) bool {
			is, err := path.Match(drivers, driver)
			return is || err != nil
		})
	}
	return slices.ContainsFunc([]string{links, "/dev/dri/", "/dev/kfd", "/dev/nvidia", "/dev/char/226:", "/dev/char/195:"}, func(prefix string) bool {
		return strings.HasPrefix(node, prefix)
	})
}

// Outside reports whether the unit's processes are outside dcm.slice. Such a unit was started
// without dcm's drop-in.
func (c Confined) Outside() bool { return c.Up() && c.Cgroup != "" && !below(c.Cgroup, unitname.Slice) }

// below reports whether a cgroup is that of a unit in the slice or in a slice below it.
func below(cgroup, slice string) bool {
	return slices.Contains(strings.Split(path.Dir(cgroup), "/"), slice)
}
