package binding

import (
	"fmt"
	"slices"

	"dcm/internal/gpu/nvml"
	"dcm/internal/gpu/partition"
)

// openGPU returns the GPU with a new handle, its mode and, with MIG on, its profiles.
func openGPU(l *library, a partition.Address) (looker, error) {
	k := newLooker(l, a)
	var err error
	if k.device, err = l.device(a); err != nil {
		return k, err
	}
	if err := k.identity(); err != nil {
		return k, err
	}
	if k.gpu.MIG, err = l.mode(k.device); err != nil {
		return k, err
	}
	if k.gpu.MIG == nil {
		return k, nvml.Fail(nvml.NotSupported, "the GPU at %s has no MIG", a)
	}
	if k.gpu.MIG.Current {
		err = k.profiles()
	}
	return k, err
}

// setMode sets the mode if it differs or another one is pending. It destroys the instances
// first if MIG is turned off.
func setMode(l *library, a partition.Address, on bool) error {
	if err := l.need(symSetMIGMode, symDestroy, symDestroyCompute, symInstances, symCInstances); err != nil {
		return err
	}
	k, err := openGPU(l, a)
	if err != nil {
		return err
	}
	if *k.gpu.MIG == (nvml.MIGMode{Current: on, Pending: on}) {
		return nil
	}
	if err := checkMode(k); err != nil {
		return err
	}
	if k.gpu.MIG.Current && !on {
		if err := destroy(k, func(nvml.Instance) bool { return true }); err != nil {
			return err
		}
	}
	want, activation := uint32(0), uint32(0)
	if on {
		want = 1
	}
	if err := l.call(symSetMIGMode, func() uint32 { return l.setMIGMode(k.device, want, &activation) }); err != nil {
		return err
	}
	// The call has succeeded; the activation status says whether the mode has changed.
	if activation != nvml.StatusSuccess {
		return nvml.FailStatus(activation, "the driver accepted the mode for %s but could not activate it", a)
	}
	return nil
}

// checkMode returns an error for a mode change that would damage the state of the driver.
func checkMode(k looker) error {
	switch k.gpu.Virtualization {
	case nvml.VGPUGuest:
		return nvml.Fail(nvml.NotSupported, "%s is a vGPU: only the host changes its mode", k.gpu.Address)
	case nvml.Passthrough:
		if yes, _ := k.lib.resetless(k.device); yes == nil || !*yes {
			return nvml.Fail(nvml.ResetRequired, "%s is passed through, and the reset for the mode would hang it until the machine restarts: set the mode on the host", k.gpu.Address)
		}
	}
	return nil
}

// destroyInstances destroys the listed instances of a GPU, or all of them if none is listed. An
// instance that does not exist is ignored.
func destroyInstances(l *library, a partition.Address, listed []partition.Instance) error {
	if err := l.need(symDestroy, symDestroyCompute, symInstances, symCInstances); err != nil {
		return err
	}
	k, err := openGPU(l, a)
	if err != nil || !k.gpu.MIG.Current {
		return err
	}
	return destroy(k, func(i nvml.Instance) bool {
		return len(listed) == 0 || slices.ContainsFunc(listed, func(w partition.Instance) bool { return i.Profile == w.Profile && i.Place.Start == w.Start })
	})
}

// destroy destroys the selected instances. It destroys the compute instances before the GPU
// instances. If a compute instance is in use, destroy creates those again that it has destroyed in the
// same GPU instance.
func destroy(k looker, selected func(nvml.Instance) bool) error {
	list, err := k.list()
	if err != nil {
		return err
	}
	list = slices.DeleteFunc(list, func(i instanceHandle) bool { return !selected(i.Instance) })
	for _, i := range list {
		for n, c := range i.compute {
			if err := k.lib.call(symDestroyCompute, func() uint32 { return k.lib.destroyCompute(c) }); err != nil {
				err = about(err, "%s in instance %d of %s", i.Compute[n].Profile, i.ID, k.gpu.Address)
				return restore(k, i, i.Compute[:n], err)
			}
		}
	}
	for _, i := range list {
		if err := k.lib.call(symDestroy, func() uint32 { return k.lib.destroy(i.handle) }); err != nil {
			return about(err, "instance %d (%s at slot %d) of %s", i.ID, i.Profile, i.Place.Start, k.gpu.Address)
		}
	}
	return nil
}

// restore creates the destroyed compute instances of a GPU instance again, one of whose others is in use,
// and returns the error of that one.
func restore(k looker, in instanceHandle, destroyed []nvml.ComputeInstance, inUse error) error {
	var names []string
	for _, c := range destroyed {
		names = append(names, c.Profile)
	}
	if err := createComputes(k, in.handle, in.ProfID, in.slices, names, fmt.Sprintf("instance %d of %s", in.ID, k.gpu.Address)); err != nil {
		return about(inUse, "%s (not created again: %v)", partition.List(names), err)
	}
	return inUse
}

// createInstances creates instances. It validates all of them, and their slots, before the first one.
func createInstances(l *library, a partition.Address, want []partition.Instance) error {
	if err := l.need(symCreateAt, symCreateCompute, symDestroy, symInfo, symCProfile, symInstances, symCInstances); err != nil {
		return err
	}
	k, err := openGPU(l, a)
	if err != nil {
		return err
	}
	if !k.gpu.MIG.Current {
		return nvml.Fail(nvml.NotSupported, "MIG is off on %s", a)
	}
	profiles := make([]nvml.Profile, len(want))
	for i, w := range want {
		if profiles[i], err = offered(k, w); err != nil {
			return err
		}
	}
	reused, err := vacate(k, want, profiles)
	if err != nil {
		return err
	}
	for i, w := range want {
		if err := create(k, w, profiles[i], reused[i].handle); err != nil {
			return err
		}
	}
	return nil
}

// vacate makes room for the wanted instances. An interrupted change leaves GPU instances without a compute
// instance, which no process can use. vacate returns those that are wanted, by their index in want, and
// destroys the others. Before that, it returns an error if another instance has one of the wanted slots.
func vacate(k looker, want []partition.Instance, profiles []nvml.Profile) (reused map[int]instanceHandle, err error) {
	list, err := k.list()
	if err != nil {
		return nil, err
	}
	reused = make(map[int]instanceHandle)
	inTheWay, elsewhere := make(map[int]bool), make(map[int]bool) // the IDs of hollow ones
	for _, i := range list {
		hollow := len(i.Compute) == 0
		if hollow {
			elsewhere[i.ID] = true
		}
		for n, w := range want {
			switch {
			case w.Start >= i.Place.Start+i.Place.Size || i.Place.Start >= w.Start+profiles[n].Places[0].Size:
				continue
			case !hollow:
				return nil, nvml.Fail(nvml.Occupied, "%s has no room for %s at slot %d: %s is at slot %d", k.gpu.Address, w.Profile, w.Start, i.Profile, i.Place.Start)
			case w.Profile == i.Profile && w.Start == i.Place.Start:
				reused[n] = i
			default:
				inTheWay[i.ID] = true
			}
			delete(elsewhere, i.ID)
		}
	}
	if err := destroyIDs(k, inTheWay); err != nil {
		return nil, err
	}
	// If one of them cannot be destroyed, the wanted instances may fit nevertheless. If they do not,
	// their creation fails.
	_ = destroyIDs(k, elsewhere)
	return reused, nil
}

// destroyIDs destroys instances by their ID.
func destroyIDs(k looker, ids map[int]bool) error {
	if len(ids) == 0 {
		return nil
	}
	return destroy(k, func(i nvml.Instance) bool { return ids[i.ID] })
}

// offered returns the profile of an instance.
func offered(k looker, w partition.Instance) (nvml.Profile, error) {
	var names []string
	for _, p := range k.gpu.Profiles {
		names = append(names, p.Name)
		if p.Name != w.Profile {
			continue
		}
		if !slices.ContainsFunc(p.Places, func(place nvml.Placement) bool { return place.Start == w.Start }) {
			return p, nvml.Fail(nvml.NoProfile, "%s has no slot %d on %s (possible: %v)", w.Profile, w.Start, k.gpu.Address, p.Places)
		}
		return p, nil
	}
	return nvml.Profile{}, nvml.Fail(nvml.NoProfile, "%s has no profile %s (possible: %s)", k.gpu.Address, w.Profile, partition.List(names))
}

// create creates an instance, or only its compute instances if the GPU instance exists already.
func create(k looker, w partition.Instance, p nvml.Profile, existing uintptr) error {
	instance := existing
	if instance == 0 {
		var err error
		if instance, err = createGPUInstance(k, w, p); err != nil {
			return about(err, "%s at slot %d of %s", w.Profile, w.Start, k.gpu.Address)
		}
	}
	names := w.Compute
	if len(names) == 0 {
		names = []string{w.Profile}
	}
	return createComputes(k, instance, p.ID, p.Slices, names, fmt.Sprintf("%s at slot %d of %s", w.Profile, w.Start, k.gpu.Address))
}

func createGPUInstance(k looker, w partition.Instance, p nvml.Profile) (uintptr, error) {
	b := newBuffer()
	b.put32(placementStart, uint32(w.Start))
	b.put32(placementLength, uint32(p.Places[0].Size))
	var instance uintptr
	err := k.lib.call(symCreateAt, func() uint32 { return k.lib.createAt(k.device, uint32(p.ID), &b[0], &instance) })
	if err == nil && instance == 0 {
		err = nvml.Fail(nvml.Garbage, "%s returned no handle", symCreateAt)
	}
	return instance, err
}

// createComputes creates compute instances in a GPU instance with a profile of that ID and number of slices. where
// describes the GPU instance in an error.
func createComputes(k looker, instance uintptr, profile, slices int, names []string, where string) error {
	offered, err := k.computeProfiles(instance, profile)
	if err != nil {
		return about(err, "the compute instances of %s", where)
	}
	for _, name := range names {
		if err := createCompute(k, instance, name, slices, offered); err != nil {
			return about(err, "%s in %s", name, where)
		}
	}
	return nil
}

func createCompute(k looker, instance uintptr, name string, spans int, offered []computeProfile) error {
	parsed, err := partition.ParseMIGProfile(name)
	if err != nil {
		return nvml.Fail(nvml.BadRequest, "%w", err)
	}
	slicesWanted := parsed.Compute
	if slicesWanted == 0 {
		slicesWanted = spans
	}
	at := slices.IndexFunc(offered, func(c computeProfile) bool { return c.slices == slicesWanted })
	if at < 0 {
		return nvml.Fail(nvml.NoProfile, "there is no compute instance of %d slices", slicesWanted)
	}
	var compute uintptr
	return k.lib.call(symCreateCompute, func() uint32 { return k.lib.createCompute(instance, offered[at].id, &compute) })
}

// about adds the object to an error and keeps its kind.
func about(err error, format string, args ...any) error {
	f := *nvml.AsFailure(err)
	f.Text = nvml.AsFailure(nvml.Fail(f.Kind, format, args...)).Text + ": " + f.Text
	return &f
}

// readBack compares the state with the request.
func readBack(r nvml.Request, now nvml.GPU) error {
	switch {
	case now.MIG == nil:
		return nvml.Fail(nvml.Mismatch, "%s no longer has MIG", r.GPU)
	case r.Do == nvml.Clear && len(r.Instances) == 0 && len(now.Instances) > 0:
		return nvml.Fail(nvml.Mismatch, "the instances of %s were destroyed, but %d are read back", r.GPU, len(now.Instances))
	case r.Do == nvml.Mode && now.MIG.Current != *r.On && now.MIG.Pending == *r.On:
		return nvml.Fail(nvml.ResetRequired, "the mode of %s was set and needs a reset", r.GPU)
	case r.Do == nvml.Mode && now.MIG.Current != *r.On:
		return nvml.Fail(nvml.Mismatch, "the mode of %s was set but is not read back", r.GPU)
	}
	for _, w := range r.Instances {
		if err := done(r.Do, w, now); err != nil {
			return err
		}
	}
	return nil
}

// done returns an error if an instance does not exist as requested, or still exists.
func done(do nvml.Op, w partition.Instance, now nvml.GPU) error {
	if do == nvml.Fill {
		return made(w, now)
	}
	if slices.ContainsFunc(now.Instances, func(i nvml.Instance) bool { return i.Profile == w.Profile && i.Place.Start == w.Start }) {
		return nvml.Fail(nvml.Mismatch, "%s at slot %d of %s was destroyed but is still read back", w.Profile, w.Start, now.Address)
	}
	return nil
}

// made returns an error if an instance does not exist as requested.
func made(w partition.Instance, now nvml.GPU) error {
	at := slices.IndexFunc(now.Instances, func(i nvml.Instance) bool { return i.Profile == w.Profile && i.Place.Start == w.Start })
	if at < 0 {
		return nvml.Fail(nvml.Mismatch, "%s was created at slot %d of %s but is not read back", w.Profile, w.Start, now.Address)
	}
	var have []string
	for _, c := range now.Instances[at].Compute {
		have = append(have, c.Profile)
	}
	one := func(compute []string) partition.MIG {
		return partition.MIG{Instances: []partition.Instance{{Profile: w.Profile, Start: w.Start, Compute: compute}}}
	}
	if len(have) == 0 || !one(have).Same(one(w.Compute)) {
		return nvml.Fail(nvml.Mismatch, "%s at slot %d of %s was created with compute instances %q, but %q are read back", w.Profile, w.Start, now.Address, w.Compute, have)
	}
	return nil
}
