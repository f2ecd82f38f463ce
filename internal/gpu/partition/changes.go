package partition

import "slices"

// Change is what a plan does to one GPU.
type Change struct {
	GPU Address

	// Whole reports that the GPU itself changes: its mode is switched or its driver is
	// reloaded. No partition of it stays, and no process can keep it open.
	Whole bool

	// KeepsUsers reports that all partitions stay as they are, with their users. The other fields are empty.
	KeepsUsers bool

	// The following fields are for a GPU with MIG that is not changed as a whole. Each instance has
	// a placement. An instance that is created again with other compute instances is in Removed and
	// in Created.
	Kept    []Instance // stay as they are, with their users
	Removed []Instance // are destroyed
	Created []Instance // are created
}

// Keeps reports whether the MIG instance that begins at the memory slot stays.
func (c Change) Keeps(start int) bool {
	return slices.ContainsFunc(c.Kept, func(i Instance) bool { return i.Start == start })
}

// Changes returns what the plan does to each GPU that it concerns, in PCI order. have is the
// state for which it was planned. A memory mode concerns the GPUs of the hive, and the reload
// of a driver concerns all GPUs of its vendor. A GPU without a change is not listed.
func (s Steps) Changes(have []GPU) []Change {
	var out []Change
	for _, g := range byAddress(have) {
		if c, ok := s.change(g); ok {
			out = append(out, c)
		}
	}
	return out
}

// change returns what the plan does to one GPU, and false if it does nothing.
func (s Steps) change(g GPU) (Change, bool) {
	c, concerned := Change{GPU: g.Address, KeepsUsers: true}, false
	shape := g.Shape()
	for _, step := range s {
		if !step.concerns(g) {
			continue
		}
		concerned = true
		c.KeepsUsers = c.KeepsUsers && step.Kind.KeepsUsers()
		switch step.Kind {
		case SetAllocation, SetIsolation:
		case DestroyInstances, CreateInstances:
			shape = shape.AfterStep(step)
		default:
			c.Whole = true
		}
	}
	if !concerned || c.Whole || c.KeepsUsers || g.MIG == nil {
		c.Whole = concerned && !c.KeepsUsers
		return c, concerned
	}
	for _, i := range g.MIG.Instances {
		if s.destroys(g.Address, i) {
			c.Removed = append(c.Removed, i)
		} else {
			c.Kept = append(c.Kept, i)
		}
	}
	for _, i := range shape.MIG.Instances {
		if !c.Keeps(i.Start) {
			c.Created = append(c.Created, i)
		}
	}
	return c, true
}

// destroys reports whether the plan destroys the instance of the GPU.
func (s Steps) destroys(gpu Address, i Instance) bool {
	return slices.ContainsFunc(s, func(step Step) bool {
		return step.Kind == DestroyInstances && step.GPU == gpu &&
			!slices.ContainsFunc(step.kept(), func(k Instance) bool { return k.Start == i.Start })
	})
}

// concerns reports whether the step changes the GPU.
func (s Step) concerns(g GPU) bool {
	return s.GPU == g.Address || slices.Contains(s.Hive, g.Address) || s.Kind.Reloads() && s.Kind.Vendor() == g.Vendor
}
