package selftest

import (
	"fmt"
	"slices"
	"strings"

	"dcm/internal/gpu/partition"
)

// Prefix is what the names of all profiles of a self-test begin with.
const Prefix = "selftest-"

// Target is one way to divide the GPUs that a self-test goes through, or not.
type Target struct {
	Mode    string // in short, "CPX/NPS4"
	Profile partition.Profile
	Want    map[partition.Address]partition.Shape // of the GPUs that it is about
	Left    string                                // why it is not gone through; "" if it is
}

// Before is the profile that the GPUs have now, to go back to.
func Before(gpus []partition.GPU) (partition.Profile, error) {
	p, err := partition.Describe(Prefix+"before", gpus)
	if err != nil {
		return p, fmt.Errorf("it could not be gone back: %w", err)
	}
	return p, nil
}

// InShort is a profile in words, "2 CPX, rest SPX with NPS1".
func InShort(p partition.Profile) string {
	if p.Memory == "" {
		return p.String()
	}
	return p.String() + " with " + string(p.Memory)
}

// Targets are all ways to divide the GPUs that these list themselves, or that are known
// of their boards, with as few reloads of the driver as there can be. mayReload says
// that the driver may be reloaded at all.
func Targets(gpus []partition.GPU, mayReload bool) []Target {
	return append(modes(gpus, mayReload), geometries(gpus)...)
}

// modes are those of the GPUs that have modes: the memory mode that they have now first,
// and of each memory mode first what the driver picks by itself.
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
			if m != now && t.Left != "" {
				why = t.Left // nobody lists it
				continue
			}
			if m != now && !mayReload {
				t.Left = "reload-driver is false"
			}
			fit = append(fit, t)
		}
		if len(fit) == 0 {
			fit = []Target{{Mode: string(m), Left: "no compute mode fits it: " + why}}
		}
		out = append(out, fit...)
	}
	return out
}

// listed is what the GPUs with modes have for a memory mode, and what they list.
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

// order is the compute modes, beginning with the one that the driver picks by itself.
func order(m partition.Memory) []partition.Compute {
	all := partition.ComputeModes()
	if i := slices.Index(all, m.AutoCompute()); i > 0 {
		all[0], all[i] = all[i], all[0]
	}
	return all
}

// geometries are those that need no definition, of the GPUs that have MIG.
func geometries(gpus []partition.GPU) []Target {
	var out []Target
	for _, name := range partition.PredefinedNames(gpus) {
		p, _ := partition.Predefined(name)
		layout, err := p.Layout(gpus)
		if err != nil {
			out = append(out, Target{Mode: name, Left: err.Error()})
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

// target is the node after change, which tells which GPUs it is about.
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
		err = possible(t.Profile, gpus)
	}
	if err != nil {
		t.Left = strings.ReplaceAll(err.Error(), "\n", "; ")
	}
	return t
}

// possible tells why a profile cannot be put on the GPUs, or not be left again.
func possible(p partition.Profile, gpus []partition.GPU) error {
	layout, err := p.Layout(gpus)
	if err != nil {
		return err
	}
	steps, err := partition.Plan(layout, gpus)
	if err != nil {
		return err
	}
	if _, err := partition.Plan(partition.CurrentLayout(gpus), partition.Forecast(gpus, steps)); err != nil {
		return fmt.Errorf("it could not be gone back: %w", err)
	}
	return nil
}

// Unlisted tells why the target cannot be had after all, now that the GPUs are as they
// are: which compute modes go with a memory mode they list when they have that one.
func (t Target) Unlisted(gpus []partition.GPU) string {
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

// Vendor is whose GPUs the target is about.
func (t Target) Vendor(gpus []partition.GPU) partition.Vendor {
	for _, g := range gpus {
		if _, ok := t.Want[g.Address]; ok {
			return g.Vendor
		}
	}
	return 0
}
