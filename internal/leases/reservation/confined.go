package reservation

import (
	"context"
	"fmt"
	"slices"

	"dcm/internal/engine/config"
	"dcm/internal/engine/host"
	"dcm/internal/linux/systemd"
	"dcm/internal/linux/unitname"
)

// Confined is an active unit with partitions, with its confinement in PID 1.
type Confined struct {
	systemd.Confined
	Lease   bool
	Settled bool     // the last choice of partitions was for its present reservation
	Loaded  []string // differences between the properties in PID 1 and the wanted confinement
	Running string   // why its processes run unconfined; "" if they do not, as far as PID 1 reports
}

// ReadConfined reads the confinement of the active reserved units and leases from PID 1.
func ReadConfined(ctx context.Context, h *host.Host, units systemd.Cgroups, reserved []systemd.Reserved) ([]Confined, error) {
	_, chosen := lastChoice(h)
	var out []Confined
	for _, r := range reserved {
		confined, err := units.Confined(ctx, []string{r.Unit})
		if err != nil {
			return nil, fmt.Errorf("cannot read how %s is confined: %w", r.Unit, err)
		}
		for _, u := range confined {
			if u.Unit != r.Unit && slices.ContainsFunc(reserved, func(o systemd.Reserved) bool { return o.Unit == u.Unit }) {
				continue // an instance with a reservation of its own
			}
			out = append(out, judged(u, r.Confinement(), Confined{Settled: chosen && !r.Changed}))
		}
	}
	leases, err := units.ConfinedLike(ctx, []string{"dcm-lease-*.scope", "dcm-exclusive-*.scope", "dcm-share*.scope"})
	if err != nil {
		return nil, fmt.Errorf("cannot read how leases are confined: %w", err)
	}
	for _, u := range leases {
		out = append(out, judged(u, systemd.LeaseConfinement(), Confined{Lease: true}))
	}
	// The state of a unit that is being started or stopped is temporary.
	return slices.DeleteFunc(out, func(c Confined) bool { return !c.Up() || c.Job }), nil
}

func judged(u systemd.Confined, want systemd.Confinement, c Confined) Confined {
	c.Confined, c.Loaded, c.Running = u, want.Differs(u), want.Misplaced(u)
	return c
}

// ReservedUnits returns the units with a reservation, as the generator writes them. If the
// configuration cannot be used, only the reservations are read.
func ReservedUnits(h *host.Host, cfg *config.Config) []systemd.Reserved {
	var list []config.Reservation
	if cfg != nil {
		list = cfg.Reservations
	} else {
		list, _ = Reservations(h)
	}
	o := AddReservations(h, systemd.Order{Needs: DropinNeeds(h)}, list)
	return slices.DeleteFunc(o.Reserved, func(r systemd.Reserved) bool { return r.Slice.Value != "" && !r.Slice.Inside(unitname.Slice) })
}
