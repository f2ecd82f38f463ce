package partition

import (
	"errors"
	"fmt"
	"strings"
)

// On reports whether a [SetMIGMode] step turns MIG on.
func (s Step) On() bool { return s.To != migOff }

func (s Step) migText() string {
	switch s.Kind {
	case DestroyInstances:
		return fmt.Sprintf("take the MIG instances of %s away (now %s)", s.GPU, s.From)
	case SetMIGMode:
		text := fmt.Sprintf("turn %s for %s", s.modeText(), s.GPU)
		if s.Reset {
			text += ", which resets it"
		}
		return text
	}
	return fmt.Sprintf("divide %s into %s", s.GPU, s.instancesText())
}

func (s Step) migDone(back string) string {
	switch s.Kind {
	case DestroyInstances:
		return fmt.Sprintf("took the MIG instances of %s away (%s)", s.GPU, s.From)
	case SetMIGMode:
		return fmt.Sprintf("turned %s for %s%s", s.modeText(), s.GPU, back)
	}
	return fmt.Sprintf("divided %s%s into %s", s.GPU, back, s.instancesText())
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
	return strings.Join(texts(s.MIG.Instances), ", ")
}

// migSteps returns the steps from the current geometries to the wanted ones. It destroys
// before it creates, since instances cannot be moved.
func migSteps(want Layout, gpus []GPU, fits packCache) Steps {
	var clear, mode, fill Steps
	for _, g := range gpus {
		w := want.Shapes[g.Address].MIG
		if w == nil || g.MIG == nil {
			continue
		}
		other := !g.MIG.Same(*w)
		if other && len(g.MIG.Instances) > 0 {
			clear = append(clear, Step{Kind: DestroyInstances, GPU: g.Address, From: g.MIG.String(), To: migEmpty})
		}
		if g.needsModeSwitch(*w) || g.MIGPending && !want.Skipped[g.Address] && g.GeometryBlocked == "" && g.ModeBlocked == "" {
			mode = append(mode, Step{Kind: SetMIGMode, GPU: g.Address, From: migModeText(g.MIG.Off), To: migModeText(w.Off), Reset: g.ModeResetsGPU})
		}
		if other && len(w.Instances) > 0 {
			made, _ := fits.pack(g, w) // checkMIG has packed it without an error
			fill = append(fill, Step{Kind: CreateInstances, GPU: g.Address, From: migEmpty, To: made.String(), MIG: &made})
		}
	}
	return append(append(clear, mode...), fill...)
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
}

func (p packCache) pack(g GPU, w *MIG) (MIG, error) {
	at := packKey{want: w, device: g.Device, off: g.MIG.Off}
	if len(g.Profiles) > 0 {
		at.offers = &g.Profiles[0]
	}
	known, ok := p[at]
	if !ok {
		known.made, known.err = g.pack(*w)
		p[at] = known
	}
	return known.made, known.err
}

// pack returns the geometry with placements from the profiles that the driver reports. If
// the driver reports them only with MIG on, the table of boards gives a forecast. Without
// either, the geometry stays without placements.
func (g GPU) pack(w MIG) (MIG, error) {
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
	return Pack(offered, w)
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
		return "it has no modes, but MIG"
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
