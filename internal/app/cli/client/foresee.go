package client

import (
	"dcm/internal/engine/runstate"
	"dcm/internal/frontends/status"
	"dcm/internal/gpu/partition"
)

// Holders returns the processes that have a GPU open, and the leases.
func Holders(a status.Account) []runstate.Holder {
	var out []runstate.Holder
	for _, u := range a.Holders {
		h := runstate.Holder{PID: u.PID, Command: u.Command, Unit: u.Unit, Devices: u.Devices, Attached: []partition.Address{}, Lessee: u.Lessee, Leased: append([]string{}, u.Leased...)}
		for _, a := range u.Attached {
			h.Attached = append(h.Attached, partition.Address(a))
		}
		out = append(out, h)
	}
	return out
}
