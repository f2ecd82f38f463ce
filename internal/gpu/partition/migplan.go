package partition

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"
)

// On reports whether a [SetMIGMode] step turns MIG on.
func (s Step) On() bool { return s.To != migOff }

func (s Step) migText() string {
	switch s.Kind {
	case DestroyInstances:
		return fmt.Sprintf("destroy %s of %s%s", s.instancesText(), s.GPU, s.keptText("keep"))
	case SetMIGMode:
		text := fmt.Sprintf("turn %s for %s", s.modeText(), s.GPU)
		if s.Reset {
			text += ", which resets it"
		}
		return text
	}
	return fmt.Sprintf("create %s on %s%s", s.instancesText(), s.GPU, s.keptText("keep"))
}

func (s Step) migDone(back bool) string {
	switch s.Kind {
	case DestroyInstances:
		return fmt.Sprintf("destroyed %s of %s%s", s.instancesText(), s.GPU, s.keptText("kept"))
	case SetMIGMode:
		again := ""
		if back {
			again = " back"
		}
		return fmt.Sprintf("turned %s for %s%s", s.modeText(), s.GPU, again)
	}
	created := "created"
	if back {
		created = "restored"
	}
	return fmt.Sprintf("%s %s on %s%s", created, s.instancesText(), s.GPU, s.keptText("kept"))
}

func (s Step) modeText() string {
	if s.On() {
		return "MIG on"
	}
	return migOff
}

func (s Step) instancesText() string {
	if s.MIG == nil {
		return s.To
	}
	return instanceList(s.MIG.Instances)
}

// instanceList names the instances: "3g.40gb@0, 1g.10gb@4". More than two of a profile are counted: "7 × 1g.10gb".
func instanceList(list []Instance) string {
	var out []string
	for len(list) > 0 {
		n := 1
		for n < len(list) && list[n].Profile == list[0].Profile {
			n++
		}
		if n > 2 {
			out = append(out, fmt.Sprintf("%d × %s", n, list[0].Profile))
		} else {
			out = append(out, texts(list[:n])...)
		}
		list = list[n:]
	}
	return strings.Join(out, ", ")
}

func (s Step) keptText(verb string) string {
	if s.Kept == nil {
		return ""
	}
	return ", " + verb + " " + instanceList(s.Kept.Instances)
}

// kept returns the instances that stay during the step.
func (s Step) kept() []Instance {
	if s.Kept == nil {
		return nil
	}
	return s.Kept.Instances
}

// Geometry returns the geometry after a step that destroys or creates instances.
func (s Step) Geometry() MIG {
	list := slices.Clone(s.kept())
	if s.Kind == CreateInstances && s.MIG != nil {
		list = append(list, s.MIG.Instances...)
		slices.SortStableFunc(list, func(a, b Instance) int { return cmp.Compare(a.Start, b.Start) })
	}
	return MIG{Instances: list}
}

// migSteps returns the steps from the current geometries to the wanted ones. It destroys
// before it creates, since instances cannot be moved. Instances that the wanted geometry has
// too stay, unless MIG is switched.
func migSteps(want Layout, gpus []GPU, fits packCache) Steps {
	var clear, mode, fill Steps
	for _, g := range gpus {
		w := want.Shapes[g.Address].MIG
		if w == nil || g.MIG == nil {
			continue
		}
		if g.needsModeSwitch(*w) || g.MIGPending && !want.Skipped[g.Address] && g.GeometryBlocked == "" && g.ModeBlocked == "" {
			mode = append(mode, Step{Kind: SetMIGMode, GPU: g.Address, From: migModeText(g.MIG.Off), To: migModeText(w.Off), Reset: g.ModeResetsGPU})
		}
		if g.MIG.Same(*w) {
			continue
		}
		made, _ := fits.pack(g, w) // checkMIG has packed it without an error
		kept, removed, created := g.keeping(*w).difference(made)
		if len(kept) == 0 {
			removed = g.MIG.Instances
		}
		if len(removed) > 0 {
			clear = append(clear, g.instanceStep(DestroyInstances, *g.MIG, removed, kept))
		}
		if len(created) > 0 {
			before := MIG{Instances: kept}
			fill = append(fill, g.instanceStep(CreateInstances, before, created, kept))
		}
	}
	return append(append(clear, mode...), fill...)
}

// instanceStep returns the step that creates or destroys instances, given the geometry before
// it and the instances that stay.
func (g GPU) instanceStep(kind Kind, before MIG, list, kept []Instance) Step {
	s := Step{Kind: kind, GPU: g.Address, From: before.String(), MIG: &MIG{Instances: list}}
	if len(kept) > 0 {
		s.Kept = &MIG{Instances: kept}
	}
	s.To = s.Geometry().String()
	return s
}

// keeping returns the instances that may stay for the wanted geometry: none if MIG is
// switched, or if the driver had no room next to them.
func (g GPU) keeping(w MIG) MIG {
	if g.MIG.Off || g.needsModeSwitch(w) || g.NoRoomFor.MIG != nil && g.NoRoomFor.MIG.Same(w) {
		return MIG{}
	}
	return *g.MIG
}

func migModeText(off bool) string {
	if off {
		return migOff
	}
	return migEmpty
}

// packCache keeps the result of packing, since most GPUs of a node are equal and get the
// same geometry.
type packCache map[packKey]struct {
	made MIG
	err  error
}

// packKey is equal for GPUs with the same profiles and the same wanted geometry.
type packKey struct {
	want   *MIG
	device uint16
	off    bool
	offers *InstanceProfile // identifies the list by its first element
	keep   string           // the instances that may stay, with their users
}

func (p packCache) pack(g GPU, w *MIG) (MIG, error) {
	at := packKey{want: w, device: g.Device, off: g.MIG.Off}
	if len(g.Profiles) > 0 {
		at.offers = &g.Profiles[0]
	}
	now := Existing{Instances: g.keeping(*w).Instances, Users: g.InstanceUsers}
	if len(now.Instances) > 0 {
		at.keep = fmt.Sprint(MIG{Instances: now.Instances}.key(), now.Users)
	}
	known, ok := p[at]
	if !ok {
		known.made, known.err = g.pack(*w, now)
		p[at] = known
	}
	return known.made, known.err
}

// pack returns the geometry with placements from the profiles that the driver reports. If
// the driver reports them only with MIG on, the table of boards gives a forecast. Without
// either, the geometry stays without placements. Of the existing instances it keeps as many as
// possible, see [PackKeeping].
func (g GPU) pack(w MIG, now Existing) (MIG, error) {
	if w.Off || len(w.Instances) == 0 {
		return w, nil
	}
	offered, err := g.instanceProfiles()
	switch {
	case errors.Is(err, errProfilesUnknown):
		return w, nil
	case err != nil:
		return MIG{}, err
	}
	return PackKeeping(offered, w, now)
}

// withMade returns the wanted geometry of a dynamic GPU: that of its group, and the existing instances
// that leases have made. If these do not fit next to the group's, it returns that of the group, so that
// a change waits for the end of the leases.
func (g GPU) withMade(rest MIG) MIG {
	if g.MIG == nil || g.MIG.Off {
		return rest
	}
	made := slices.DeleteFunc(slices.Clone(g.MIG.Instances), func(i Instance) bool { return !slices.ContainsFunc(g.Made, i.stays) })
	if len(made) == 0 {
		return rest
	}
	want := MIG{Instances: slices.Concat(rest.Instances, made)}
	if _, err := g.pack(want, Existing{Instances: g.MIG.Instances}); err != nil {
		return rest
	}
	return want
}

// needsModeSwitch reports whether the geometry needs a step that switches MIG. A pending
// switch counts, since the next reset would carry it out.
func (g GPU) needsModeSwitch(w MIG) bool {
	return g.MIG.Off != w.Off || g.MIGPending && !g.MIG.Same(w)
}

// checkMIG returns why g cannot get the shape, or "".
func checkMIG(g GPU, w Shape, fits packCache) string {
	switch {
	case w.MIG == nil:
		return "it has MIG and no modes"
	case g.MIG == nil:
		return "it has no MIG"
	case g.GeometryBlocked != "":
		return g.GeometryBlocked
	case g.ModeBlocked != "" && g.needsModeSwitch(*w.MIG):
		return g.ModeBlocked
	}
	if _, err := fits.pack(g, w.MIG); err != nil {
		return strings.ReplaceAll(err.Error(), "\n", "; ")
	}
	return ""
}
