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
	"dcm/internal/text"
)

// ModeGPU is a dynamic GPU whose compute mode leases switch.
type ModeGPU struct {
	XCC       int
	Now       partition.Compute
	Rest      partition.Compute   // its mode without leases
	Available []partition.Compute // with its present memory mode; nil: unknown
	Users     []string            // units and processes that use it
	Refused   string              // why it must not be switched; "" if it may be
	Recent    string              // why it may be switched only later; "" if it may be now
	Returning bool                // systemd stops the unit of a mode of leases, which switches the GPU back
}

// modeGPUs returns the dynamic GPUs with modes.
func (s Snapshot) modeGPUs() ([]DynamicGPU, error) {
	list, err := s.dynamicGPUs()
	return slices.DeleteFunc(slices.Clone(list), func(g DynamicGPU) bool { return g.Modes == nil }), err
}

// modeOffer is what a GPU can give to a request for partitions in a mode.
type modeOffer struct {
	choice placement.Choice
	shared bool // the GPU has the mode of other leases already
	left   int  // the number of partitions that stay free
}

// chooseMode chooses partitions of one GPU for a request for a mode: of a GPU that other leases have set
// to this mode, if one has enough free partitions, and otherwise of an idle GPU.
func (p *policy) chooseMode(snapshot Snapshot, caller Caller, r Request) (placement.Choice, error) {
	gpus, err := snapshot.modeGPUs()
	if err != nil {
		return placement.Choice{}, err
	}
	allocations := Allocations(snapshot)
	mode, n := partition.Compute(r.Make), max(r.Partitions, 1)
	var none []refusal
	var best *modeOffer
	xcc, late := 0, 0
	for _, g := range gpus {
		o, err := snapshot.modeOffer(g, allocations, mode, n)
		if err != nil {
			none = append(none, refusal{g.GPU, err})
			continue
		}
		better := best == nil || g.Late == late && (o.shared && !best.shared || o.shared == best.shared && o.left < best.left)
		if better {
			best, xcc, late = &o, n*g.Modes.XCC/mode.Partitions(g.Modes.XCC), g.Late
		}
	}
	if best == nil {
		return placement.Choice{}, noMode(none, mode, n)
	}
	if err := p.check(allocations, caller, n); err != nil {
		return best.choice, err
	}
	return best.choice, p.checkSlots(gpus, allocations, caller, xcc)
}

// modeOffer returns what a GPU can give now. Its error is an [InsufficientError] if the GPU can give the
// partitions later.
func (s Snapshot) modeOffer(g DynamicGPU, allocations []Allocation, mode partition.Compute, n int) (modeOffer, error) {
	total := mode.Partitions(g.Modes.XCC)
	switch {
	case g.Modes.Available != nil && !slices.Contains(g.Modes.Available, mode):
		return modeOffer{}, fmt.Errorf("the mode %s is not available now (available: %s)", mode, partition.List(g.Modes.Available))
	case n > total:
		return modeOffer{}, fmt.Errorf("it has %d partitions in %s, and a request with --make is for one GPU", total, mode)
	}
	var own []Allocation
	for _, h := range allocations {
		if h.GPU == g.GPU {
			own = append(own, h)
		}
	}
	claim, claimed := s.Switched[g.GPU]
	switch {
	case g.Awaited != "":
		return modeOffer{}, &InsufficientError{Err: fmt.Errorf("%s waits to change the GPU", g.Awaited)}
	case g.Refused != "":
		return modeOffer{}, &InsufficientError{Err: errors.New(g.Refused)}
	case g.Modes.Returning:
		return modeOffer{}, &InsufficientError{Err: fmt.Errorf("it is being switched back to %s", g.Modes.Rest)}
	case claimed && claim.Profile == string(mode) && g.Modes.Now == mode:
		return shareMode(g, own, claim, n)
	case claimed:
		return modeOffer{}, &InsufficientError{Err: fmt.Errorf("leases have set %s", claim.Profile), Holders: whoseOf(own)}
	case g.Modes.Refused != "":
		return modeOffer{}, errors.New(g.Modes.Refused)
	}
	if g.Modes.Now != g.Modes.Rest {
		return modeOffer{}, &InsufficientError{Err: fmt.Errorf("it is to be changed from %s to %s", g.Modes.Now, g.Modes.Rest)}
	}
	if holders := append(whoseOf(own), g.Modes.Users...); len(holders) > 0 {
		return modeOffer{}, reservedOnly(own, &InsufficientError{Err: errors.New("it is in use"), Holders: unique(holders)})
	}
	if g.Modes.Recent != "" {
		return modeOffer{}, &InsufficientError{Err: errors.New(g.Modes.Recent)}
	}
	o := modeOffer{left: total - n}
	for i := range n {
		o.choice.Partitions = append(o.choice.Partitions, runstate.Part{
			Name: runstate.PartName(g.GPU, i), GPU: g.GPU, Index: i, NUMA: -1, Kind: partition.KindOf(partition.AMD, string(mode)),
		})
	}
	o.choice.Reason = fmt.Sprintf("%d of %d partitions of %s, which is switched from %s to %s", n, total, g.GPU, g.Modes.Now, mode)
	return o, nil
}

// shareMode chooses free partitions of a GPU whose mode leases have set.
func shareMode(g DynamicGPU, own []Allocation, claim made.Name, n int) (modeOffer, error) {
	no := make(map[string]bool)
	for _, h := range own {
		h.Made = ""
		no[h.Name] = !h.Free()
	}
	c, err := placement.Choose(all(own), no, placement.Want{Partitions: n})
	if short, ok := errors.AsType[*placement.ShortError](err); ok {
		return modeOffer{}, &InsufficientError{Err: fmt.Errorf("%d of %d partitions are free", short.Free, len(own)), Holders: whoseOf(own)}
	}
	c.Reason = fmt.Sprintf("%s, which leases have set to %s", c.Reason, claim.Profile)
	free := 0
	for _, taken := range no {
		if !taken {
			free++
		}
	}
	return modeOffer{choice: c, shared: true, left: free - n}, err
}

// whoseOf returns the holders of partitions.
func whoseOf(allocations []Allocation) []string {
	var out []string
	for _, h := range allocations {
		out = append(out, h.Whose()...)
	}
	return unique(out)
}

func unique(list []string) []string {
	slices.Sort(list)
	return slices.Compact(list)
}

// reservedOnly replaces the error of a GPU in use by one that is not temporary if a reservation has one
// of its partitions.
func reservedOnly(own []Allocation, err error) error {
	for _, h := range own {
		if h.For != "" {
			return fmt.Errorf("reservation %s has %s: a GPU with reserved partitions is never switched for leases", h.For, h.Name)
		}
	}
	return err
}

// noMode returns the error of a request that no GPU can meet: permanent, unless one may meet it later.
func noMode(none []refusal, mode partition.Compute, n int) error {
	if len(none) == 0 {
		return &ImpossibleError{errors.New("no GPU with compute modes is dynamic in the profile\nhint: set dynamic = true in a group of the profile, see dcm.toml(5)")}
	}
	var holders []string
	later := false
	for i, r := range none {
		if short, ok := errors.AsType[*InsufficientError](r.err); ok {
			later, holders = true, append(holders, short.Holders...)
			none[i].err = short.Err
		}
	}
	what := fmt.Sprintf("no dynamic GPU can give %s in %s", text.Count(n, "partition"), mode)
	if !later {
		return &ImpossibleError{fmt.Errorf("%s (%s)", what, joinRefusals(none))}
	}
	return &InsufficientError{Err: fmt.Errorf("%s now (%s)", what, joinRefusals(none)), Holders: unique(holders)}
}

// heldShare returns the XCCs of dynamic GPUs that the leases of a user have.
func heldShare(gpus []DynamicGPU, allocations []Allocation, uid uint32) int {
	n := 0
	for _, g := range gpus {
		if g.Modes == nil {
			continue
		}
		parts, held := 0, 0
		for _, h := range allocations {
			if h.GPU != g.GPU {
				continue
			}
			parts++
			if slices.ContainsFunc(h.Units, func(unit string) bool { l, ok := unitname.ParseLease(unit); return ok && l.UID == uid }) && h.Switched.IsMode() {
				held++
			}
		}
		n += held * g.Modes.XCC / max(parts, 1)
	}
	return n
}

// modeImpossible is slotImpossible for a request for a mode.
func (p *policy) modeImpossible(alone Snapshot, c Caller, r Request) error {
	_, err := p.chooseMode(alone, c, r)
	if never, ok := errors.AsType[*ImpossibleError](err); ok {
		return never
	}
	if limit, ok := errors.AsType[*LimitError](err); ok {
		return &ImpossibleError{limit}
	}
	return nil
}

// modeName returns the name of the mode for a request.
func modeName(snapshot Snapshot, r Request, c placement.Choice) made.Name {
	gpu := c.Partitions[0].GPU
	if claim, ok := snapshot.Switched[gpu]; ok {
		return claim
	}
	n := made.Name{GPU: gpu, Profile: r.Make}
	gpus, _ := snapshot.modeGPUs() // the choice is from this list
	for _, g := range gpus {
		if g.GPU == gpu {
			n.Rest = g.Modes.Rest
		}
	}
	return n
}

// keepMode is [Allocator.keep] for a request for a mode.
func (a *Allocator) keepMode(ctx context.Context, c Caller, r Request, at location) (Lease, bool) {
	snapshot, err := a.host.Partitions.Snapshot(ctx)
	if err != nil || a.host.Processes.Check(c) != nil {
		return Lease{}, false
	}
	var kept []runstate.Part
	for _, h := range Allocations(snapshot) {
		if !slices.Contains(h.Units, at.unit) {
			continue
		}
		if snapshot.Switched[h.GPU].Profile != r.Make {
			return Lease{}, false
		}
		kept = append(kept, h.Part)
	}
	if len(kept) != max(r.Partitions, 1) {
		return Lease{}, false
	}
	choice := placement.Choice{Partitions: kept, Reason: fmt.Sprintf("%d partitions of %s, which leases have set to %s", len(kept), kept[0].GPU, r.Make)}
	return Lease{Unit: at.unit, Choice: choice, Nodes: nodesOf(choice, a.starter.common)}, true
}
