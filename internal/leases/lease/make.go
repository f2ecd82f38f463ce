package lease

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"dcm/internal/engine/runstate"
	"dcm/internal/gpu/made"
	"dcm/internal/gpu/partition"
	"dcm/internal/leases/placement"
	"dcm/internal/linux/unitname"
)

// DynamicGPU is a GPU that leases divide: they make MIG instances or, if Modes is set, switch its compute
// mode.
type DynamicGPU struct {
	GPU     partition.Address
	Offered []partition.InstanceProfile
	Fixed   []partition.Instance // the instances of the profile
	Made    []made.Name          // the instances of leases
	Awaited string               // the process that waits to change the GPU; "" for none
	Refused string               // why no lease gets the GPU now; "" if one may
	Late    int                  // see [placement.Want.Late]
	Modes   *ModeGPU             // nil: the GPU has MIG
}

// migGPUs returns the dynamic GPUs with MIG.
func (s Snapshot) migGPUs() ([]DynamicGPU, error) {
	list, err := s.dynamicGPUs()
	return slices.DeleteFunc(slices.Clone(list), func(g DynamicGPU) bool { return g.Modes != nil }), err
}

func (g DynamicGPU) instances() []partition.Instance {
	out := slices.Clone(g.Fixed)
	for _, m := range g.Made {
		out = append(out, m.Instance())
	}
	return out
}

// makeFor returns what a lease of the choice makes, and the links to its device nodes. common are the
// nodes for partitions without companion nodes.
func makeFor(snapshot Snapshot, unit string, r Request, c placement.Choice, common []string) (name made.Name, nodes []string) {
	if !partition.IsMode(r.Make) {
		name = instanceFor(unit, r, c)
		return name, name.Nodes()
	}
	name, nodes = modeName(snapshot, r, c), slices.Clone(common)
	for _, p := range c.Partitions {
		nodes = append(nodes, name.Node(p.Index))
	}
	return name, nodes
}

// instanceFor returns the name of the instance that a lease of the choice makes.
func instanceFor(unit string, r Request, c placement.Choice) made.Name {
	return made.Name{Lease: unit, GPU: c.Partitions[0].GPU, Profile: r.Make, Start: c.Partitions[0].Index}
}

// chooseSlot chooses the GPU and the slots for the instance of a request.
func (p *policy) chooseSlot(snapshot Snapshot, caller Caller, r Request) (placement.Choice, error) {
	gpus, err := snapshot.migGPUs()
	if err != nil {
		return placement.Choice{}, err
	}
	allocations := Allocations(snapshot)
	at, best, err := BestSlot(gpus, r.Make)
	if e, ok := errors.AsType[*InsufficientError](err); ok {
		e.Holders = makersOf(allocations, gpus)
	}
	if err != nil {
		return placement.Choice{}, err
	}
	gpu := gpus[at].GPU
	part := runstate.Part{Name: runstate.PartName(gpu, best.Start), GPU: gpu, Index: best.Start, NUMA: -1, Kind: partition.KindOf(partition.NVIDIA, r.Make)}
	c := placement.Choice{Partitions: []runstate.Part{part}, Reason: fmt.Sprintf("%s made on %s at slot %d", r.Make, gpu, best.Start)}
	if err := p.check(allocations, caller, 1); err != nil {
		return c, err
	}
	return c, p.checkSlots(gpus, allocations, caller, slotsOf(gpus[at].Offered, r.Make))
}

// slotsOf returns the number of memory slots of a profile.
func slotsOf(offered []partition.InstanceProfile, profile string) int {
	for _, s := range offered {
		if s.Name == profile {
			return s.Size
		}
	}
	return 0
}

// checkSlots returns a [LimitError] if n more memory slots or XCCs would exceed the limit of the user.
// These are counted since partitions differ in size: one can be a whole GPU.
func (p *policy) checkSlots(gpus []DynamicGPU, allocations []Allocation, c Caller, n int) error {
	limit, has := p.get().Slots, 0
	if limit == 0 || c.UID == 0 {
		return nil
	}
	for _, g := range gpus {
		for _, m := range g.Made {
			if name, _ := unitname.ParseLease(m.Lease); name.UID == c.UID {
				has += slotsOf(g.Offered, m.Profile)
			}
		}
	}
	if has += heldShare(gpus, allocations, c.UID); has+n <= limit {
		return nil
	}
	return &LimitError{"max-slots-per-user in [leases]", has, n, limit, fmt.Sprintf("slots of user %d", c.UID)}
}

// BestSlot returns the index of the GPU and the slots for one more instance: those that take the least
// room for others, and of these the GPU with the least room. It returns an
// [InsufficientError] if a GPU may have room later, otherwise an [ImpossibleError].
func BestSlot(gpus []DynamicGPU, profile string) (at int, best partition.Slot, err error) {
	at = -1
	var none []refusal
	for i, g := range gpus {
		slot, err := partition.NextSlot(g.Offered, g.instances(), profile)
		if err == nil && g.Awaited != "" {
			err = &InsufficientError{Err: fmt.Errorf("%s waits to change the GPU", g.Awaited)}
		}
		if err == nil && g.Refused != "" {
			err = &InsufficientError{Err: errors.New(g.Refused)}
		}
		if err != nil {
			none = append(none, refusal{g.GPU, err})
			continue
		}
		less := func(a, b partition.Slot) bool {
			lost, other := a.Before-a.After, b.Before-b.After
			return lost < other || lost == other && a.Before < b.Before
		}
		if at < 0 || g.Late == gpus[at].Late && less(slot, best) {
			best, at = slot, i
		}
	}
	if at < 0 {
		return at, best, noSlot(none, profile)
	}
	return at, best, nil
}

// noSlot returns the error of a request for which no GPU has room: permanent, unless one of the GPUs
// may have room later.
func noSlot(none []refusal, profile string) error {
	if len(none) == 0 {
		return &ImpossibleError{errors.New("no GPU of the profile with MIG is dynamic\nhint: set dynamic = true in a group of the profile with mig, see dcm.toml(5)")}
	}
	var later error
	for _, r := range none {
		slot, full := errors.AsType[*partition.NoSlotError](r.err)
		if later == nil && (full || insufficient(r.err)) || full && slot.Movable {
			later = r.err
		}
	}
	text := joinRefusals(none)
	if later == nil {
		return &ImpossibleError{&refusedError{fmt.Sprintf("no dynamic GPU can have a %s (%s)", profile, text), none[0].err}}
	}
	return &InsufficientError{Err: &refusedError{fmt.Sprintf("no dynamic GPU can have a %s now (%s)", profile, text), later}}
}

// makersOf returns the holders of the partitions of the GPUs.
func makersOf(allocations []Allocation, gpus []DynamicGPU) []string {
	var among []partition.Address
	for _, g := range gpus {
		among = append(among, g.GPU)
	}
	return holdersOf(allocations, placement.Want{Among: among})
}

// slotImpossible returns an [ImpossibleError] if an error of chooseSlot would remain after the end of
// all leases. alone is the snapshot after their end.
func (p *policy) slotImpossible(alone Snapshot, c Caller, r Request) error {
	_, err := p.chooseSlot(alone, c, r)
	if never, ok := errors.AsType[*ImpossibleError](err); ok {
		return never
	}
	if limit, ok := errors.AsType[*LimitError](err); ok {
		return &ImpossibleError{limit}
	}
	full, ok := errors.AsType[*refusedError](err)
	if _, slots := errors.AsType[*partition.NoSlotError](err); ok && slots {
		return &ImpossibleError{fmt.Errorf("%w: the instances of the profile have the other slots", full)}
	}
	return nil
}

// keepMade is [Allocator.keep] for a request that makes an instance.
func (a *Allocator) keepMade(ctx context.Context, c Caller, r Request, at location) (Lease, bool) {
	snapshot, err := a.host.Partitions.Snapshot(ctx)
	if err != nil || a.host.Processes.Check(c) != nil {
		return Lease{}, false
	}
	for _, h := range Allocations(snapshot) {
		if h.Made == at.unit && slices.Contains(h.Units, at.unit) && h.Kind == partition.KindOf(partition.NVIDIA, r.Make) {
			choice := placement.Choice{Partitions: []runstate.Part{h.Part}, Reason: fmt.Sprintf("%s made on %s at slot %d", r.Make, h.GPU, h.Index)}
			return Lease{Unit: at.unit, Choice: choice, Nodes: instanceFor(at.unit, r, choice).Nodes()}, true
		}
	}
	return Lease{}, false
}
