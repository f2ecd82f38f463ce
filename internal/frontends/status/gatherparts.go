package status

import (
	"fmt"
	"time"

	"dcm/internal/engine/runstate"
	"dcm/internal/gpu/partition"
)

// unreadable describes a unit whose reservation cannot be read, so that no drop-in confines it.
func unreadable(unit string) Unconfined {
	return Unconfined{Unit: unit, Why: List[string]{"its reservation cannot be read, so it starts with all devices"},
		Hint: "dcm check shows what is wrong; repair the file, and restart the unit"}
}

// addConfinement adds the units that systemd does not confine.
func addConfinement(a *Account, c Confinement) {
	a.Unconfined = append(a.Unconfined, c.Unconfined...)
	if c.Lost != nil {
		a.Problems = append(a.Problems, *c.Lost)
	}
}

// addReservations adds the reservations, and the units whose reservations cannot be read.
func addReservations(a *Account, r ReservationState) {
	a.Reserved, a.Guard = r.List, r.Guard
	a.Problems = append(a.Problems, r.Wrong...)
	a.Warnings = append(a.Warnings, r.Notes...)
	for _, one := range r.List {
		if one.Share > 0 && r.Guard.Uncapped != "" {
			a.Warnings = append(a.Warnings, fmt.Sprintf("reservation %s is shared, not capped: %s", one.Name, r.Guard.Uncapped))
		}
	}
	for _, unit := range r.Open {
		a.Unconfined = append(a.Unconfined, unreadable(unit))
	}
}

// addHeld records the holders of the partitions, and the leases.
func addHeld(a *Account, h HeldParts) {
	a.Leases = h.Leases
	for i := range a.Parts {
		p := &a.Parts[i]
		p.Holders, p.Since = h.Holders[p.Name], nil
		for _, name := range p.Holders {
			if began, ok := h.Since[name]; ok {
				if p.Since == nil {
					p.Since = make(map[string]time.Time)
				}
				p.Since[name] = began
			}
		}
	}
}

// addExpected records which of the known GPUs are missing.
func addExpected(a *Account, known runstate.Known) {
	var there []string
	for _, g := range a.GPUs {
		if g.Managed() {
			there = append(there, g.Address)
		}
	}
	a.Expected = Expect(a.Expected.GPUs, known.GPUs, there)
	if !a.hidden(partGPUs) && !a.Running() {
		addLost(a, known)
	}
	if more := a.Expected.More(len(there)); more != "" {
		a.Warnings = append(a.Warnings, more)
	}
}

// addPending records memory modes that were requested but have not taken effect yet.
func addPending(a *Account) {
	asked := runstate.PendingSince(a.LastRun, a.Host.Boot)
	for i := range a.GPUs {
		g := &a.GPUs[i]
		if mode := string(asked[partition.Address(g.Address)]); mode != g.Mode.Memory {
			g.Pending = mode
		}
	}
}
