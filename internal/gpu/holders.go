package gpu

import (
	"context"
	"path/filepath"
	"slices"

	"dcm/internal/gpu/partition"
)

// Holders returns the processes, other than this one, that have a GPU open, by pid.
// Where some processes could not be looked at, it returns the others with a
// [PartialError], which is [ErrPartial].
func (n *Node) Holders(ctx context.Context) ([]Holder, error) {
	u, err := n.Usage(ctx)
	if err == nil && len(u.Uninspected) > 0 {
		err = &PartialError{u.Uninspected}
	}
	return u.Holders, err
}

// merge adds a holder, to what another vendor has found of the same process if it
// has.
func mergeHolder(all []Holder, h Holder) []Holder {
	i := slices.IndexFunc(all, func(known Holder) bool { return known.PID == h.PID })
	if i < 0 {
		return append(all, h)
	}
	all[i].Devices = append(all[i].Devices, h.Devices...)
	all[i].Vendors = append(all[i].Vendors, h.Vendors...)
	return all
}

// InWay returns the holders that keep the steps from succeeding: with a driver's
// reload all that hold one of its GPUs, otherwise those that have open what a GPU
// that is to be changed wants closed. Leases are in the way of every change.
func Blockers(steps partition.Steps, devices []Device, holders []Holder) []Holder {
	closed := make(map[string]bool)
	for _, d := range devices {
		if slices.ContainsFunc(steps, func(s partition.Step) bool { return s.GPU == d.Address }) {
			for _, node := range d.ExclusiveNodes {
				closed[filepath.Base(node)] = true
			}
		}
	}
	var out []Holder
	for _, h := range holders {
		reloaded := slices.ContainsFunc(steps, func(s partition.Step) bool {
			return s.Kind.Reloads() && slices.Contains(h.Vendors, s.Kind.Vendor())
		})
		if reloaded || h.LeaseOwner != "" || slices.ContainsFunc(h.Devices, func(node string) bool { return closed[filepath.Base(node)] }) {
			out = append(out, h)
		}
	}
	return out
}
