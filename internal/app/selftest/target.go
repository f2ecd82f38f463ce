package selftest

import (
	"fmt"
	"slices"
	"strings"

	"dcm/internal/gpu/partition"
)

// Prefix is the prefix of the names of all profiles of a self-test.
const Prefix = "selftest-"

// Target is one partitioning that a self-test applies or skips.
type Target struct {
	Mode       string // for example "CPX/NPS4"
	Profile    partition.Profile
	Want       map[partition.Address]partition.Shape // of the GPUs that it changes
	SkipReason string                                // why it is skipped; "" if it is not
}

// Before returns the current partitioning as a profile, to restore it.
func Before(gpus []partition.GPU) (partition.Profile, error) {
	p, err := partition.Describe(Prefix+"before", gpus)
	if err != nil {
		return p, fmt.Errorf("the current state could not be restored: %w", err)
	}
	return p, nil
}

// Describe describes a profile, "2 CPX, rest SPX with NPS1".
func Describe(p partition.Profile) string {
	if p.Memory == "" {
		return p.String()
	}
	return p.String() + " with " + string(p.Memory)
}

// Targets returns all partitionings that the GPUs list or that are known for their boards, in
// an order with the fewest driver reloads. mayReload says whether the driver may be reloaded.
func Targets(gpus []partition.GPU, mayReload bool) []Target {
	return append(modes(gpus, mayReload), geometries(gpus)...)
}

// modes returns the targets of GPUs with modes: the current memory mode first, and for each
// memory mode first the compute mode that the driver chooses.
func modes(gpus []partition.GPU, mayReload bool) []Target {
	var out []Target
	now, memories, computes := listed(gpus)
	for _, m := range memories {
		var fit []Target
		var why string
		for _, c := range order(m) {
			if m == now && !slices.Contains(computes, c) {
				continue
			}
			t := target(gpus, partition.Mode{Compute: c, Memory: m}.String(), func(g *partition.GPU) bool {
				if g.MIG == nil {
					g.Compute, g.Memory = c, m
				}
				return g.MIG == nil
			})
			if m != now && t.SkipReason != "" {
				why = t.SkipReason // no GPU lists it
				continue
			}
			if m != now && !mayReload {
				t.SkipReason = "reload-driver is false"
			}
			fit = append(fit, t)
		}
		if len(fit) == 0 {
			fit = []Target{{Mode: string(m), SkipReason: "no compute mode fits: " + why}}
		}
		out = append(out, fit...)
	}
	return out
}

// listed returns the current memory mode of the GPUs with modes, and the modes that they list.
func listed(gpus []partition.GPU) (now partition.Memory, memories []partition.Memory, computes []partition.Compute) {
	add := func(m partition.Memory) {
		if !slices.Contains(memories, m) {
			memories = append(memories, m)
		}
	}
	for _, g := range gpus {
		if g.MIG != nil {
			continue
		}
		now = g.Memory
		add(now)
		for _, c := range g.AvailableCompute {
			if !slices.Contains(computes, c) {
				computes = append(computes, c)
			}
		}
	}
	for _, g := range gpus {
		for _, m := range g.AvailableMemory {
			add(m)
		}
	}
	return now, memories, computes
}

// order returns the compute modes, beginning with the one that the driver chooses for the
// memory mode.
func order(m partition.Memory) []partition.Compute {
	all := partition.ComputeModes()
	if i := slices.Index(all, m.AutoCompute()); i > 0 {
		all[0], all[i] = all[i], all[0]
	}
	return all
}

// geometries returns the common geometries of the GPUs with MIG.
func geometries(gpus []partition.GPU) []Target {
	var out []Target
	for _, name := range partition.PredefinedNames(gpus) {
		p, _ := partition.Predefined(name)
		layout, err := p.Layout(gpus)
		if err != nil {
			out = append(out, Target{Mode: name, SkipReason: err.Error()})
			continue
		}
		t := target(gpus, name, func(g *partition.GPU) bool {
			s := layout.Shapes[g.Address]
			if layout.Skipped[g.Address] || s.MIG == nil {
				return false
			}
			g.MIG = s.MIG
			return true
		})
		out = append(out, t)
	}
	return out
}

// target returns a target for the node after change, which reports whether it changed a GPU.
func target(gpus []partition.GPU, mode string, change func(*partition.GPU) bool) Target {
	t := Target{Mode: mode, Want: make(map[partition.Address]partition.Shape)}
	after := slices.Clone(gpus)
	for i := range after {
		if change(&after[i]) {
			t.Want[after[i].Address] = after[i].Shape()
		}
	}
	var err error
	name := Prefix + strings.ToLower(strings.ReplaceAll(mode, "/", "-"))
	if t.Profile, err = partition.Describe(name, after); err == nil {
		err = checkPossible(t.Profile, gpus)
	}
	if err != nil {
		t.SkipReason = strings.ReplaceAll(err.Error(), "\n", "; ")
	}
	return t
}

// checkPossible returns an error if a profile cannot be put on the GPUs, or if the current
// state could not be restored after it.
func checkPossible(p partition.Profile, gpus []partition.GPU) error {
	layout, err := p.Layout(gpus)
	if err != nil {
		return err
	}
	steps, err := partition.Plan(layout, gpus)
	if err != nil {
		return err
	}
	if _, err := partition.Plan(partition.CurrentLayout(gpus), partition.Forecast(gpus, steps)); err != nil {
		return fmt.Errorf("the current state could not be restored: %w", err)
	}
	return nil
}

// UnlistedReason returns why a target cannot be applied in the GPUs' current state, or "". The
// GPUs list the compute modes of a memory mode only while they have it.
func (t Target) UnlistedReason(gpus []partition.GPU) string {
	for _, g := range gpus {
		want, ok := t.Want[g.Address]
		if !ok || want.MIG != nil || g.Memory != want.Memory || g.AvailableCompute == nil {
			continue
		}
		if !slices.Contains(g.AvailableCompute, want.Compute) {
			return fmt.Sprintf("%s lists %s with %s", g.Address, partition.List(g.AvailableCompute), g.Memory)
		}
	}
	return ""
}

// Vendor returns the vendor of the target's GPUs.
func (t Target) Vendor(gpus []partition.GPU) partition.Vendor {
	for _, g := range gpus {
		if _, ok := t.Want[g.Address]; ok {
			return g.Vendor
		}
	}
	return 0
}
