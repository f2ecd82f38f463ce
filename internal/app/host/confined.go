package host

import (
	"context"
	"fmt"
	"slices"

	"dcm/internal/engine/config"
	"dcm/internal/frontends/status"
	"dcm/internal/linux/systemd"
	"dcm/internal/linux/unitname"
)

// Confined is a unit with partitions that is up, as PID 1 has it confined.
type Confined struct {
	systemd.Confined
	Lease   bool
	Settled bool     // the last choice of partitions was for its reservation as it is now
	Loaded  []string // how what PID 1 has loaded for it differs from its confinement
	Running string   // why its processes run without the confinement; "" if they do not, as far as PID 1 knows
}

// Confined reads how PID 1 has the reserved units and the leases confined that are up.
func (h *Host) Confined(ctx context.Context, conn *systemd.Conn, reserved []systemd.Reserved) ([]Confined, error) {
	_, chosen := h.chosen()
	var out []Confined
	for _, r := range reserved {
		units, err := conn.Confined(ctx, []string{r.Unit})
		if err != nil {
			return nil, fmt.Errorf("cannot read how %s is confined: %w", r.Unit, err)
		}
		for _, u := range units {
			if u.Unit != r.Unit && slices.ContainsFunc(reserved, func(o systemd.Reserved) bool { return o.Unit == u.Unit }) {
				continue // an instance with a reservation of its own
			}
			out = append(out, judged(u, r.Confinement(), Confined{Settled: chosen && !r.Changed}))
		}
	}
	leases, err := conn.ConfinedLike(ctx, []string{"dcm-lease-*.scope", "dcm-exclusive-*.scope", "dcm-share*.scope"})
	if err != nil {
		return nil, fmt.Errorf("cannot read how leases are confined: %w", err)
	}
	for _, u := range leases {
		out = append(out, judged(u, systemd.LeaseConfinement(), Confined{Lease: true}))
	}
	// A unit with a job is being started or stopped: neither is how it stays.
	return slices.DeleteFunc(out, func(c Confined) bool { return !c.Up() || c.Job }), nil
}

func judged(u systemd.Confined, want systemd.Confinement, c Confined) Confined {
	c.Confined, c.Loaded, c.Running = u, want.Differs(u), want.Misplaced(u)
	return c
}

// Unconfined returns what is wrong with a unit; ok is false if nothing is.
func (c Confined) Unconfined() (u status.Unconfined, ok bool) {
	why := slices.Clone(c.Loaded)
	if c.Running != "" {
		why = append(why, c.Running)
	}
	cure := fmt.Sprintf("systemctl cat %s shows the files that set it: remove those that override 50-dcm.conf; then systemctl daemon-reload and systemctl restart %[1]s", c.Unit)
	switch {
	case c.Lease:
		cure = "dcm release " + c.Unit
	case len(c.Loaded) == 0:
		cure = "systemctl restart " + c.Unit
	}
	return status.Unconfined{Unit: c.Unit, Why: why, Cure: cure}, len(why) > 0
}

// confinement is how the units with partitions are confined, for an account.
func (h *Host) confinement(ctx context.Context, cfg *config.Config) (status.Confinement, error) {
	reserved := h.ReservedUnits(cfg)
	if len(reserved) == 0 && len(h.Leased()) == 0 {
		return status.Confinement{}, nil
	}
	ctx, cancel := context.WithTimeout(ctx, DialTimeout)
	defer cancel()
	conn, err := h.Dial(ctx)
	if err != nil {
		return status.Confinement{}, err
	}
	defer conn.Close()
	units, err := h.Confined(ctx, conn, reserved)
	var out status.Confinement
	for _, c := range units {
		if u, wrong := c.Unconfined(); wrong {
			out.Unconfined = append(out.Unconfined, u)
		}
	}
	return out, err
}

// ReservedUnits are the units with a reservation, as the generator writes them. Where the
// configuration cannot be used the reservations are read alone.
func (h *Host) ReservedUnits(cfg *config.Config) []systemd.Reserved {
	var list []config.Reservation
	if cfg != nil {
		list = cfg.Reservations
	} else {
		list, _ = h.Reservations()
	}
	o := h.Reserve(systemd.Order{Needs: h.Needs()}, list)
	return slices.DeleteFunc(o.Reserved, func(r systemd.Reserved) bool { return r.Slice.Value != "" && !r.Slice.Inside(unitname.Slice) })
}
