package partition

import (
	"fmt"
	"slices"
)

// Unsupported means that GPUs cannot get the wanted shape. A retry does not help.
type Unsupported struct {
	GPUs            []Address // GPUs to which the other fields apply
	All             bool      // they are all GPUs of the node with modes (or with MIG)
	Model           string    // "" if unknown
	Want            Shape
	Setting         string    // set if the driver does not have this setting of a profile: a key with its value
	Reason          string    // set if the reason is no list of accepted modes
	AcceptedCompute []Compute // accepted with the wanted memory mode; nil if unknown
	AcceptedMemory  []Memory  // accepted memory modes, if the wanted one is not
}

func (e *Unsupported) Error() string {
	who, do := e.subject()
	switch {
	case e.Setting != "":
		return fmt.Sprintf("%s %s not support %s: the driver shows no %s", who, do, e.Setting, e.Reason)
	case e.Reason != "":
		return fmt.Sprintf("%s cannot be set to %s: %s", who, e.Want, e.Reason)
	case e.AcceptedMemory != nil:
		return fmt.Sprintf("%s %s not support %s: accepted are %s", who, do, e.Want.Memory, List(e.AcceptedMemory))
	case len(e.AcceptedCompute) == 0:
		return fmt.Sprintf("%s %s not support %s: %s accepts no compute mode", who, do, e.Want, e.Want.Memory)
	}
	return fmt.Sprintf("%s %s not support %s: %s accepts %s", who, do, e.Want, e.Want.Memory, List(e.AcceptedCompute))
}

// coversAll reports whether GPUs are all that have modes (or MIG).
func (e *Unsupported) coversAll(gpus []GPU) bool {
	n := 0
	for _, g := range gpus {
		if (g.MIG != nil) == (e.Want.MIG != nil) {
			n++
		}
	}
	return n == len(e.GPUs)
}

// maxNamed is how many GPUs a message names if not all are affected.
const maxNamed = 3

// subject returns "0000:05:00.0 (MI300X)", "2 GPUs (MI300X at A, B)" or "8 GPUs (MI300X)"
// for all GPUs, and the verb.
func (e *Unsupported) subject() (who, do string) {
	if len(e.GPUs) == 1 {
		who = string(e.GPUs[0])
		if e.Model != "" {
			who += " (" + e.Model + ")"
		}
		return who, "does"
	}
	if e.All && e.Model != "" {
		return fmt.Sprintf("%d GPUs (%s)", len(e.GPUs), e.Model), "do"
	}
	at := List(e.GPUs[:min(maxNamed, len(e.GPUs))])
	if len(e.GPUs) > maxNamed {
		at += ", …"
	}
	if e.Model != "" {
		at = e.Model + " at " + at
	}
	return fmt.Sprintf("%d GPUs (%s)", len(e.GPUs), at), "do"
}

// mergeUnsupported adds e to the entry with the same reason, or to the list.
func mergeUnsupported(all []*Unsupported, e *Unsupported) []*Unsupported {
	for _, other := range all {
		if other.Model == e.Model && other.Setting == e.Setting && other.Want.Same(e.Want) && other.Reason == e.Reason &&
			slices.Equal(other.AcceptedCompute, e.AcceptedCompute) && slices.Equal(other.AcceptedMemory, e.AcceptedMemory) {
			other.GPUs = append(other.GPUs, e.GPUs...)
			return all
		}
	}
	return append(all, e)
}

// check returns why g cannot get the wanted shape, or nil. The current shape is always
// accepted.
func check(g GPU, want Layout, fits packCache) *Unsupported {
	w, ok := want.Shapes[g.Address]
	model, _ := LookupModel(g.Vendor, g.Device)
	e := &Unsupported{GPUs: []Address{g.Address}, Model: model.Name, Want: w}
	switch {
	case !ok:
		return nil
	case w.MIG == nil && g.MIG == nil && g.lacks(w.Settings) != nil:
		lacking := g.lacks(w.Settings)
		e.Setting, e.Reason = lacking.assignment(w.Settings), lacking.missing
		return e
	case w.Same(g.Shape()), g.MIG == nil && w.MIG == nil && w.Mode == g.Mode():
		return nil
	}
	if g.MIG != nil || w.MIG != nil {
		if e.Reason = checkMIG(g, w, fits); e.Reason == "" {
			return nil
		}
		b, _ := BoardOf(g)
		e.Model = b.Name
		return e
	}
	switch {
	case g.ReadOnly || model.Virtual:
		e.Reason = "it is a virtual function, whose modes only the host can set"
		return e
	case w.Memory != g.Memory && !slices.Contains(g.AvailableMemory, w.Memory):
		e.AcceptedMemory = g.AvailableMemory
		if len(e.AcceptedMemory) == 0 && g.Memory != "" {
			e.AcceptedMemory = []Memory{g.Memory}
		}
		if len(e.AcceptedMemory) == 0 {
			e.Reason = "the driver shows no memory partition mode for it"
		}
		return e
	case w.Memory == g.Memory && len(g.AvailableCompute) > 0:
		// The device's list is for its current memory mode.
		if slices.Contains(g.AvailableCompute, w.Compute) {
			return nil
		}
		e.AcceptedCompute = g.AvailableCompute
		return e
	case !acceptsPair(g, w.Compute, w.Memory):
		e.AcceptedCompute = computeWith(g, w.Memory)
		return e
	}
	return nil
}
