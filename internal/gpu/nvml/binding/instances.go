package binding

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"

	"dcm/internal/gpu/nvml"
	"dcm/internal/gpu/partition"
)

const (
	knownProfiles = 0x12 // GPU instance profiles of nvml.h 13.3
	knownComputes = 9    // compute instance profiles of nvml.h 13.3
	mostProfiles  = 64   // limit of the enumeration
	maxHandles    = 64   // maximum number of instances or devices of a GPU
	maxPlacements = 64
)

// enumerate calls read for each profile index until the library returns INVALID_ARGUMENT.
// Newer libraries have more than known profiles. Below known, an older library may return it
// earlier, and a GPU lacks some profiles.
func enumerate(known uint32, read func(index uint32) error) error {
	for index := range uint32(mostProfiles) {
		err := read(index)
		switch {
		case statusOf(err) == nvml.StatusInvalidArgument:
			if index >= known {
				return nil
			}
		case kindOf(err) == nvml.NotSupported:
		case err != nil:
			return err
		}
	}
	return nil
}

// unnamedProfile is a profile whose name dcm cannot parse.
type unnamedProfile struct {
	index uint32
	id    int
	err   error
}

// profiles reads the GPU instance profiles. A profile whose name cannot be parsed is a note,
// and an error only if an instance has it, see [looker.list]. It reads all profiles and
// returns the first other error.
func (k looker) profiles() error {
	var wrong error
	err := enumerate(knownProfiles, func(index uint32) error {
		p, err := k.profileAt(index)
		if kindOf(err) == nvml.NotSupported || statusOf(err) == nvml.StatusInvalidArgument {
			return err
		}
		var unnamed *unnamedError
		if errors.As(err, &unnamed) {
			*k.unnamed = append(*k.unnamed, unnamedProfile{index, p.ID, err})
			k.note(fmt.Sprintf("profile %d", index), err)
			return nil
		}
		if err == nil {
			p.Places, err = k.places(p.ID)
			if kindOf(err) == nvml.NotSupported {
				err = nil
			}
			k.gpu.Profiles = append(k.gpu.Profiles, p)
		}
		if err != nil && wrong == nil {
			wrong = about(err, "profile %d", index)
		}
		return nil
	})
	if wrong != nil {
		return wrong
	}
	return err
}

// profileAt reads a profile with version 2 of the structure. Version 3 is not used: driver
// 580.159.04 writes the name as if the structure were that of version 2, so that an H100's
// 2g.20gb is "MIG 3g.0gb" eight bytes late (seen 2026-11-27). Only version 1 works everywhere
// with MIG off; it has no name.
func (k looker) profileAt(index uint32) (nvml.Profile, error) {
	p, err := k.namedProfile(index)
	var unnamed *unnamedError
	if err == nil || errors.As(err, &unnamed) || k.gpu.MIG.Current && kindOf(err) != nvml.Unusable {
		return p, err
	}
	b := newBuffer()
	if plain := k.lib.call(symProfile, func() uint32 { return k.lib.profile(k.device, index, &b[0]) }); plain != nil {
		return p, plain
	}
	p, err = profileOf(b, index, giV1ID, giV1Slices, giV1Count, giV1Memory)
	if err != nil {
		return p, err
	}
	p.Computed = true
	p.Name, err = k.nameOf(p)
	return p, err
}

func (k looker) namedProfile(index uint32) (nvml.Profile, error) {
	b := newBuffer()
	b.put32(0, version(giV2Size, 2))
	if err := k.lib.call(symProfileV, func() uint32 { return k.lib.profileV(k.device, index, &b[0]) }); err != nil {
		return nvml.Profile{}, err
	}
	p, err := profileOf(b, index, giV2ID, giV2Slices, giV2Count, giV2Memory)
	if err != nil {
		return p, err
	}
	p.Name = strings.TrimPrefix(b.text(giV2Name, nameLength), "MIG ")
	if parsed, err := partition.ParseMIGProfile(p.Name); err != nil || parsed.Compute != 0 {
		return p, &unnamedError{p.Name}
	}
	return p, nil
}

// unnamedError means that the library gave a MIG profile a name that dcm cannot parse.
type unnamedError struct{ name string }

func (e *unnamedError) Error() string {
	return fmt.Sprintf("%q is not a name of a GPU instance profile like 1g.10gb", e.name)
}

func profileOf(b buffer, index uint32, id, slices, count, memory int) (nvml.Profile, error) {
	p := nvml.Profile{Index: int(index), ID: int(b.u32(id)), Slices: int(b.u32(slices)), Max: int(b.u32(count)), MemoryMB: b.u64(memory)}
	if p.ID > 1<<16 || p.Slices < 1 || p.Slices > 64 || p.Max > maxHandles || p.MemoryMB > 1<<30 {
		return p, nvml.Fail(nvml.Garbage, "invalid profile: id %d, %d slices, at most %d instances, %d MB", p.ID, p.Slices, p.Max, p.MemoryMB)
	}
	return p, nil
}

// nameOf computes a profile's name as NVIDIA's tools do: its share of the memory in eighths,
// rounded up to GB.
func (k looker) nameOf(p nvml.Profile) (string, error) {
	if k.gpu.Memory == 0 {
		return "", nvml.Fail(nvml.Garbage, "the memory of the GPU is unknown")
	}
	total := float64(k.gpu.Memory)
	eighths := math.Ceil(8 * float64(p.MemoryMB) * (1 << 20) / total)
	gb := math.Round(eighths / 8 * math.Ceil(total/(1<<30)))
	return fmt.Sprintf("%dg.%dgb%s", p.Slices, int(gb), attribute(p.Index)), nil
}

// attribute returns the suffix of the name for a profile index.
func attribute(index int) string {
	switch index {
	case 7, 8:
		return "+me"
	case 10, 11, 12, 17:
		return "+gfx"
	case 13, 14:
		return "-me"
	case 15, 16:
		return "+me.all"
	}
	return ""
}

// places reads the possible placements of a profile, ascending.
func (k looker) places(id int) ([]nvml.Placement, error) {
	b, n := newBuffer(), uint32(maxPlacements)
	if err := k.lib.call(symPlacements, func() uint32 { return k.lib.placements(k.device, uint32(id), &b[0], &n) }); err != nil {
		return nil, err
	}
	if n > maxPlacements {
		return nil, nvml.Fail(nvml.Garbage, "%s returned %d", symPlacements, n)
	}
	var out []nvml.Placement
	for i := range int(n) {
		p := placement(b[i*placementSize:])
		if p.Size < 1 || p.Start+p.Size > 64 || i > 0 && p.Size != out[0].Size {
			return nil, nvml.Fail(nvml.Garbage, "%s returned invalid placements", symPlacements)
		}
		out = append(out, p)
	}
	slices.SortFunc(out, func(a, b nvml.Placement) int { return a.Start - b.Start })
	return out, nil
}

// placement parses a placement. An invalid one has size 0.
func placement(b buffer) nvml.Placement {
	start, size := b.u32(placementStart), b.u32(placementLength)
	if start > 63 || size > 64 {
		return nvml.Placement{}
	}
	return nvml.Placement{Start: int(start), Size: int(size)}
}

// instanceHandle is a GPU instance with its handle.
type instanceHandle struct {
	nvml.Instance
	handle  uintptr
	slices  int
	compute []uintptr
}

// list reads the GPU instances with their compute instances, in the order of their slots. It
// needs the profiles. An instance without a known profile is an error, since its slots would
// count as free.
func (k looker) list() ([]instanceHandle, error) {
	var out []instanceHandle
	for _, u := range *k.unnamed {
		found, err := handles(k.lib, symInstances, func(b *byte, n *uint32) uint32 { return k.lib.instances(k.device, uint32(u.id), b, n) })
		if err == nil && len(found) > 0 {
			err = u.err
		}
		if err != nil {
			return nil, about(err, "profile %d", u.index)
		}
	}
	for _, p := range k.gpu.Profiles {
		found, err := handles(k.lib, symInstances, func(b *byte, n *uint32) uint32 { return k.lib.instances(k.device, uint32(p.ID), b, n) })
		if err != nil {
			return out, err
		}
		for _, h := range found {
			i, err := k.instance(h, p)
			if err != nil {
				return out, err
			}
			out = append(out, i)
		}
	}
	slices.SortStableFunc(out, func(a, b instanceHandle) int { return a.Place.Start - b.Place.Start })
	return out, nil
}

func (k looker) instance(h uintptr, p nvml.Profile) (instanceHandle, error) {
	i := instanceHandle{handle: h, slices: p.Slices}
	b := newBuffer()
	if err := k.lib.call(symInfo, func() uint32 { return k.lib.info(h, &b[0]) }); err != nil {
		return i, err
	}
	i.Instance = nvml.Instance{ID: int(b.u32(giInfoID)), Profile: p.Name, ProfID: int(b.u32(giInfoProfile)), Place: placement(b[giInfoPlacement:])}
	if i.ProfID != p.ID || i.Place.Size == 0 {
		return i, nvml.Fail(nvml.Garbage, "instance %d was listed for profile %d but has profile %d, placement %+v", i.ID, p.ID, i.ProfID, i.Place)
	}
	offered, err := k.computeProfiles(h, p.ID)
	if err != nil {
		return i, err
	}
	for _, c := range offered {
		if err := k.computes(&i, c); err != nil {
			return i, err
		}
	}
	slices.SortStableFunc(i.Compute, func(a, b nvml.ComputeInstance) int { return a.ID - b.ID })
	return i, nil
}

// computes adds the compute instances of a profile.
func (k looker) computes(i *instanceHandle, c computeProfile) error {
	found, err := handles(k.lib, symCInstances, func(b *byte, n *uint32) uint32 { return k.lib.computeInstances(i.handle, c.id, b, n) })
	if err != nil {
		return err
	}
	for _, h := range found {
		b := newBuffer()
		if err := k.lib.call(symCInfo, func() uint32 { return k.lib.computeInfo(h, &b[0]) }); err != nil {
			return err
		}
		i.compute = append(i.compute, h)
		i.Compute = append(i.Compute, nvml.ComputeInstance{
			ID: int(b.u32(ciInfoID)), ProfID: int(b.u32(ciInfoProfile)), Profile: computeName(i.Profile, i.slices, c.slices),
			Slices: c.slices, Place: placement(b[ciInfoPlacement:]),
		})
	}
	return nil
}

// computeName returns the name of a compute instance with that many slices. It is that of
// the GPU instance if it spans it.
func computeName(instance string, of, slices int) string {
	if slices == of {
		return instance
	}
	return fmt.Sprintf("%dc.%s", slices, instance)
}

// computeProfile is a compute instance profile of a GPU instance.
type computeProfile struct {
	id     uint32
	slices int
}

// computeProfiles reads the compute instance profiles. Only an existing GPU instance reports
// them. They are read once for each GPU instance profile.
func (k looker) computeProfiles(instance uintptr, profile int) ([]computeProfile, error) {
	const shared = 0 // compute instances share the other engines
	if known, ok := k.inside[profile]; ok {
		return known, nil
	}
	var out []computeProfile
	err := enumerate(knownComputes, func(index uint32) error {
		b := newBuffer()
		b.put32(0, version(ciV2Size, 2))
		if err := k.lib.call(symCProfile, func() uint32 { return k.lib.computeProfile(instance, index, shared, &b[0]) }); err != nil {
			return err
		}
		c := computeProfile{id: b.u32(ciV2ID), slices: int(b.u32(ciV2Slices))}
		if c.slices < 1 || c.slices > 64 {
			return nvml.Fail(nvml.Garbage, "a compute instance of %d slices", c.slices)
		}
		out = append(out, c)
		return nil
	})
	if err != nil {
		return nil, err
	}
	k.inside[profile] = out
	return out, nil
}

// handles calls a function that fills an array of handles.
func handles(l *library, name string, list func(handles *byte, count *uint32) uint32) ([]uintptr, error) {
	b, n := newBuffer(), uint32(maxHandles)
	if err := l.call(name, func() uint32 { return list(&b[0], &n) }); err != nil {
		if kindOf(err) == nvml.NotSupported {
			return nil, nil
		}
		return nil, err
	}
	if n > maxHandles {
		return nil, nvml.Fail(nvml.Garbage, "%s returned %d instances", name, n)
	}
	out := make([]uintptr, n)
	for i := range out {
		if out[i] = uintptr(binary.NativeEndian.Uint64(b[8*i:])); out[i] == 0 {
			return nil, nvml.Fail(nvml.Garbage, "handle %d of %s is null", i, name)
		}
	}
	return out, nil
}
