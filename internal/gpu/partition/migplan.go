package partition

import (
	"errors"
	"fmt"
	"strings"
)

// On tells whether a step of kind [SetMIGMode] turns MIG on.
func (s Step) On() bool { return s.To != migOff }

func (s Step) migText() string {
	switch s.Kind {
	case DestroyInstances:
		return fmt.Sprintf("take the MIG instances of %s away (now %s)", s.GPU, s.From)
	case SetMIGMode:
		text := fmt.Sprintf("turn %s for %s", s.mode(), s.GPU)
		if s.Reset {
			text += ", which resets it"
		}
		return text
	}
	return fmt.Sprintf("divide %s into %s", s.GPU, s.made())
}

func (s Step) migDone(back string) string {
	switch s.Kind {
	case DestroyInstances:
		return fmt.Sprintf("took the MIG instances of %s away (%s)", s.GPU, s.From)
	case SetMIGMode:
		return fmt.Sprintf("turned %s for %s%s", s.mode(), s.GPU, back)
	}
	return fmt.Sprintf("divided %s%s into %s", s.GPU, back, s.made())
}

func (s Step) mode() string {
	if s.On() {
		return "MIG on"
	}
	return migOff
}

func (s Step) made() string {
	if s.MIG == nil {
		return s.To
	}
	return strings.Join(texts(s.MIG.Instances), ", ")
}

// migSteps brings GPUs to the geometries wanted: what is there goes first, since
// instances cannot be moved. Nothing is done to a GPU that is right already.
func migSteps(want Layout, gpus []GPU, fits packed) Steps {
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
		if g.switches(*w) || g.MIGPending && !want.Skipped[g.Address] && g.Barred == "" && g.ModeBarred == "" {
			mode = append(mode, Step{Kind: SetMIGMode, GPU: g.Address, From: onOff(g.MIG.Off), To: onOff(w.Off), Reset: g.Resets})
		}
		if other && len(w.Instances) > 0 {
			made, _ := fits.pack(g, w) // judged
			fill = append(fill, Step{Kind: CreateInstances, GPU: g.Address, From: migEmpty, To: made.String(), MIG: &made})
		}
	}
	return append(append(clear, mode...), fill...)
}

func onOff(off bool) string {
	if off {
		return migOff
	}
	return migEmpty
}

// packed remembers what was packed: most GPUs of a node are alike, and are wanted alike.
type packed map[packing]struct {
	made MIG
	err  error
}

// packing is equal for GPUs that offer the same and are wanted the same.
type packing struct {
	want   *MIG
	device uint16
	off    bool
	offers *Slots // the first of them
}

func (p packed) pack(g GPU, w *MIG) (MIG, error) {
	at := packing{want: w, device: g.Device, off: g.MIG.Off}
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

// pack gives the instances their places, by what the GPU itself tells. Where its
// driver tells that with MIG on only, what is known of the board stands in for it, as
// a forecast; of a board that is not known there is none.
func (g GPU) pack(w MIG) (MIG, error) {
	if w.Off || len(w.Instances) == 0 {
		return w, nil
	}
	offered, err := g.offers()
	switch {
	case errors.Is(err, errUntold):
		return w, nil
	case err != nil:
		return MIG{}, err
	}
	return Pack(offered, w)
}

// switches reports whether another geometry takes a switch of MIG. A switch that is pending
// would take effect with the next reset.
func (g GPU) switches(w MIG) bool {
	return g.MIG.Off != w.Off || g.MIGPending && !g.MIG.Same(w)
}

// judgeMIG tells why g cannot be divided as it is wanted; "" if it can.
func judgeMIG(g GPU, w Shape, fits packed) string {
	switch {
	case w.MIG == nil:
		return "it has no modes, but MIG"
	case g.MIG == nil:
		return "it has no MIG"
	case g.Barred != "":
		return g.Barred
	case g.ModeBarred != "" && g.switches(*w.MIG):
		return g.ModeBarred
	}
	if _, err := fits.pack(g, w.MIG); err != nil {
		return strings.ReplaceAll(err.Error(), "\n", "; ")
	}
	return ""
}
