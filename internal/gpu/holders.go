package gpu

import (
	"path/filepath"
	"slices"

	"dcm/internal/gpu/partition"
)

// Holder is a process that has a GPU device node open, or that belongs to a lease.
type Holder struct {
	PID     int
	Command string
	Unit    string             // system unit of the process; "" if it has none
	Devices []string           // "/dev/kfd", "/dev/dri/renderD128"
	Vendors []partition.Vendor // vendors of these GPUs

	// Attached are the GPUs that the process uses through [Device.SharedNode]; those that have
	// left the bus are [Removed]. It is empty if
	// they are unknown, or if the driver does not distinguish them ([BusyCheckNode]). The
	// process then counts as a user of every GPU that has the node.
	Attached []partition.Address

	LeaseOwner string // user whose lease the process belongs to, even if it has no node open; "" for none

	// Leased are the nodes that the process may open as a member of the lease. It is empty if
	// they are unknown; the lease then counts as one of every GPU.
	Leased []string
}

// Removed stands for a GPU that has left the bus, whose address is no longer known.
const Removed partition.Address = "removed"

// Uses reports whether the process uses the GPU in a way that prevents a change of it: it has
// one of the GPU's exclusive nodes open, is attached to the GPU through the shared node, or
// belongs to a lease of the GPU.
func (h Holder) Uses(d Device) bool {
	own := func(node string) bool { return node != d.SharedNode && d.exclusive(node) }
	switch {
	case slices.ContainsFunc(h.Devices, own):
		return true
	case h.LeaseOwner != "" && (len(h.Leased) == 0 || slices.ContainsFunc(h.Leased, own)):
		return true
	}
	return slices.Contains(h.Devices, d.SharedNode) && d.exclusive(d.SharedNode) && (len(h.Attached) == 0 || slices.Contains(h.Attached, d.Address))
}

// exclusive reports whether the node is one of the GPU's exclusive nodes.
func (d Device) exclusive(node string) bool { return hasNode(d.ExclusiveNodes, node) }

// hasNode reports whether the node is in the list, in any directory.
func hasNode(list []string, node string) bool {
	return slices.ContainsFunc(list, func(one string) bool { return filepath.Base(one) == filepath.Base(node) })
}

// mergeHolder adds a holder. One process may hold GPUs of two vendors.
func mergeHolder(all []Holder, h Holder) []Holder {
	i := slices.IndexFunc(all, func(known Holder) bool { return known.PID == h.PID })
	if i < 0 {
		return append(all, h)
	}
	all[i].Devices = append(all[i].Devices, h.Devices...)
	all[i].Vendors = append(all[i].Vendors, h.Vendors...)
	return all
}

// Blockers returns the holders that make the steps fail. For a driver reload these are all
// holders of a GPU of the driver, and all leases. For other steps they are those that use the
// changed GPU, unless the step keeps them, see [partition.Kind.KeepsUsers]. A holder that only uses MIG instances that stay does not block. A holder that keeps
// a module loaded blocks each step before which the module must be unloaded.
func Blockers(steps partition.Steps, devices []Device, holders []Holder) []Holder {
	var out []Holder
	for _, h := range holders {
		if slices.ContainsFunc(steps, func(s partition.Step) bool { return h.blocks(s, devices) }) {
			out = append(out, h)
		}
	}
	return out
}

func (h Holder) blocks(s partition.Step, devices []Device) bool {
	if s.Kind.Reloads() {
		return h.LeaseOwner != "" || slices.Contains(h.Vendors, s.Kind.Vendor())
	}
	if s.Kind.KeepsUsers() {
		return false
	}
	i := slices.IndexFunc(devices, func(d Device) bool { return d.Address == s.GPU })
	switch {
	case i < 0:
		return h.LeaseOwner != "" // the GPU is not visible, so that its nodes are unknown
	case s.Kind == partition.CreateInstances:
		return false // instances are created in free slots, whatever uses the others
	case s.Kind == partition.DestroyInstances && s.Kept != nil:
		return h.usesOthers(devices[i], s.Kept.Instances)
	case s.Kind.MayReset() && h.keeps(devices[i].HeldBy):
		return true
	}
	return h.Uses(devices[i])
}

// keeps reports whether the process keeps the module loaded.
func (h Holder) keeps(m *HoldingModule) bool {
	return m != nil && slices.ContainsFunc(h.Devices, func(node string) bool { return hasNode(m.Nodes, node) })
}

// usesOthers reports whether the process uses the GPU for something other than the MIG
// instances. The nodes of the whole GPU do not show which instance a process uses, so they
// count unless the process has one of the instances open.
func (h Holder) usesOthers(d Device, instances []partition.Instance) bool {
	others := func(nodes []string) bool {
		var needed []string
		for _, p := range d.Parts {
			if hasNode(nodes, p.RenderNode()) && slices.ContainsFunc(instances, func(i partition.Instance) bool { return i.Start == p.Start }) {
				needed = append(append(needed, p.RenderNode()), p.CompanionNodes...)
			}
		}
		return slices.ContainsFunc(nodes, func(node string) bool { return d.exclusive(node) && !hasNode(needed, node) })
	}
	return others(h.Devices) || h.LeaseOwner != "" && (len(h.Leased) == 0 || others(h.Leased))
}
