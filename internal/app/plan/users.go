package plan

import (
	"context"
	"fmt"
	"slices"

	"dcm/internal/engine/apply"
	"dcm/internal/engine/config"
	"dcm/internal/engine/host"
	"dcm/internal/engine/runstate"
	"dcm/internal/gpu"
	"dcm/internal/gpu/partition"
)

// WithInstances returns the difference, planned again for what is known of MIG instances. The plan
// interrupts the fewest users: units that have an instance reserved, leased or open. A client that is
// restarted for every change of its GPU does not count. No instance stays for a geometry for which the
// last run found no room next to it.
func WithInstances(h *host.Host, cfg *config.Config, d apply.Difference, holders []runstate.Holder) (apply.Difference, error) {
	if !Instances(d.Steps) {
		return d, nil
	}
	u := users{clients: host.Clients(h, cfg), holders: holders}
	if cfg.PerGPU() {
		last, err := runstate.ReadPartitions(h.Runtime())
		if err != nil {
			return d, err
		}
		u.reservations = placed(cfg, last)
	}
	last, err := runstate.ReadRun(h.Runtime())
	if err != nil {
		return d, err
	}
	return d.WithInstances(u.of(d.Devices), runstate.NoRoomSince(last, h.BootID()))
}

// Instances reports whether a plan destroys or creates MIG instances.
func Instances(steps partition.Steps) bool {
	return slices.ContainsFunc(steps, func(s partition.Step) bool {
		return s.Kind == partition.DestroyInstances || s.Kind == partition.CreateInstances
	})
}

// WithUse is WithInstances for the present use of the GPUs, which it also returns.
func WithUse(ctx context.Context, h *host.Host, cfg *config.Config, d apply.Difference, node apply.UseReader) (apply.Difference, gpu.Usage, error) {
	u, err := node.Usage(ctx)
	if err != nil {
		return d, u, err
	}
	d, err = WithInstances(h, cfg, d, apply.Holders(u.Holders))
	return d, u, err
}

// placed returns the reservations for units whose choice of partitions is still valid. A reservation of
// whole GPUs is not one of them: every change of its GPUs concerns it.
func placed(cfg *config.Config, last *runstate.Partitions) []runstate.Reservation {
	if last == nil {
		return nil
	}
	return slices.DeleteFunc(slices.Clone(last.Reservations), func(r runstate.Reservation) bool {
		return r.Unit == "" || !slices.ContainsFunc(cfg.Reservations, func(c config.Reservation) bool {
			return c.Name == r.Name && c.Asks() == r.Asks && !c.Whole
		})
	})
}

// users are the units and processes that may use MIG instances.
type users struct {
	clients      []string
	reservations []runstate.Reservation // of clients
	holders      []runstate.Holder
}

// of returns the users of the devices' MIG instances; nil for none.
func (u users) of(devices []gpu.Device) runstate.InstanceUsers {
	var out runstate.InstanceUsers
	for _, d := range devices {
		if d.MIG == nil {
			continue
		}
		for _, p := range d.Parts {
			found := u.ofPart(runstate.PartName(d.Address, p.Index), p.RenderNode())
			if len(found) == 0 {
				continue
			}
			if out == nil {
				out = make(runstate.InstanceUsers)
			}
			if out[d.Address] == nil {
				out[d.Address] = make(map[int][]partition.InstanceUser)
			}
			out[d.Address][p.Start] = append(out[d.Address][p.Start], found...)
		}
	}
	return out
}

// ofPart returns the users of a partition by its name and its own node, each once.
func (u users) ofPart(name, node string) []partition.InstanceUser {
	var out []partition.InstanceUser
	for _, r := range u.reservations {
		if slices.Contains(r.Partitions, name) {
			out = append(out, partition.InstanceUser{Name: r.Unit})
		}
	}
	for _, h := range u.holders {
		open := slices.Contains(h.Devices, node) || slices.Contains(h.Leased, node)
		if !open || u.always(h.Unit) || slices.ContainsFunc(out, func(known partition.InstanceUser) bool { return config.Lists([]string{known.Name}, nameOf(h)) }) {
			continue
		}
		out = append(out, partition.InstanceUser{Name: nameOf(h), Blocks: !config.Lists(u.clients, h.Unit)})
	}
	return out
}

// nameOf returns the unit of a process; if it has none, the process.
func nameOf(h runstate.Holder) string {
	if h.Unit != "" {
		return h.Unit
	}
	return fmt.Sprintf("%s (pid %d)", h.Command, h.PID)
}

// always reports whether each change restarts the unit, whatever it keeps: a client without partitions
// of its own.
func (u users) always(unit string) bool {
	return config.Lists(u.clients, unit) && !slices.ContainsFunc(u.reservations, func(r runstate.Reservation) bool { return config.Lists([]string{r.Unit}, unit) })
}
