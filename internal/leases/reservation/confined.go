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
	Lease   bool     // the unit is a lease, not a reserved service
	Settled bool     // the reservation has not changed since partitions were chosen for it
	Loaded  []string // differences between the properties in PID 1 and the wanted ones
	Running string   // why PID 1 does not confine the unit's processes; "" if it does
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
			out = append(out, compare(u, r.Confinement(u.Unit), Confined{Settled: chosen && !r.Changed}))
		}
	}
	leases, err := units.ConfinedLike(ctx, []string{"dcm-lease-*.scope", "dcm-exclusive-*.scope", "dcm-share*.scope"})
	if err != nil {
		return nil, fmt.Errorf("cannot read how leases are confined: %w", err)
	}
	for _, u := range leases {
		out = append(out, compare(u, systemd.LeaseConfinement(), Confined{Lease: true}))
	}
	// The state of a unit that is being started or stopped is temporary.
	return slices.DeleteFunc(out, func(c Confined) bool { return !c.Up() || c.Job }), nil
}

// compare adds the unit and its differences from the wanted confinement to c.
func compare(u systemd.Confined, want systemd.Confinement, c Confined) Confined {
	c.Confined, c.Loaded, c.Running = u, want.Differs(u), want.Misplaced(u)
	return c
}

// ReservedUnits returns the reserved units that the generator writes drop-ins for. If the
// configuration has errors, it reads only the reservations from it.
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
