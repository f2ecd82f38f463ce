package reservation

import (
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"

	"dcm/internal/engine/config"
	"dcm/internal/engine/host"
	"dcm/internal/engine/runstate"
	"dcm/internal/gpu"
	"dcm/internal/gpu/made"
	"dcm/internal/gpu/partition"
	"dcm/internal/leases/lease"
	"dcm/internal/leases/placement"
	"dcm/internal/linux/systemd"
)

// Reservations returns the valid reservations of the configuration, even if the files have other
// errors. unconfined are the units whose reservation cannot be read: they start with all devices.
func Reservations(h *host.Host) (all []config.Reservation, unconfined []string) {
	return config.Reservations(config.DefaultPaths(h.Root))
}

// Order returns the generator's input for a configuration.
func Order(h *host.Host, cfg *config.Config) systemd.Order {
	o := systemd.Order{Clients: host.Clients(h, cfg), Require: cfg.Require, PerGPU: cfg.PerGPU(), Observers: withoutOwnSlice(h, cfg.Observers), Watching: cfg.Observers, Needs: DropinNeeds(h)}
	if cfg.Agent {
		o.OrderedAfter = kubelets()
	}
	return AddReservations(h, o, cfg.Reservations)
}

// kubelets returns the units that start a node's containers in the common Kubernetes distributions.
func kubelets() []string {
	return []string{"kubelet.service", "k3s.service", "k3s-agent.service", "rke2-server.service", "rke2-agent.service",
		"k0sworker.service", "k0scontroller.service", "snap.microk8s.daemon-kubelite.service"}
}

// DropinNeeds returns the sections that the GPUs of this host need in drop-ins, by unit name.
func DropinNeeds(h *host.Host) map[string]string { return host.OpenNode(h, nil).Dropins() }

// AddReservations adds the reservations to the generator's input. It marks units whose reservation has
// changed since the last choice of partitions, and units that have no reservation any more. A restart
// of dcm-reserve.service restarts only these. If the list of the last choice is missing, it marks all,
// since the partitions of their units are not known.
func AddReservations(h *host.Host, o systemd.Order, list []config.Reservation) systemd.Order {
	last, chosen := lastChoice(h)
	lost := !chosen && ListMissing(h)
	o.Guarded = wasExclusive(h) // then the guard has to run once more, to unprotect these partitions
	for _, r := range list {
		before, had := last[r.Unit]
		delete(last, r.Unit)
		if r.Exclusive {
			o.Guarded = true
			o.HolderSlices = append(o.HolderSlices, ReservationSlice(h, r.Name, r.Unit))
		}
		if r.Unit == "" {
			continue
		}
		one := systemd.Reserved{Unit: r.Unit, Name: r.Name, Count: r.Partitions, Exclusive: r.Exclusive, Share: r.Share}
		if r.Whole {
			one.Count, one.Whole = len(r.GPUs)*partition.MaxPartitions, true
		}
		if r.Make != "" {
			one.Count, one.Maker = 1, maker(r)
		}
		if len(o.Needs) > 0 {
			one.CompanionLinks = 3 + 2*one.Count // upper bound: three common nodes, and two of each partition
		}
		if len(r.Devices) > 0 {
			one.CompanionLinks += config.MaxOtherDevices
		}
		one.Changed = lost || chosen && (!had || before.Asks != r.Asks())
		one.Slice = sliceOf(h, r, false)
		o.Reserved = append(o.Reserved, one)
	}
	for unit := range last {
		o.Released = append(o.Released, unit)
	}
	return o
}

// maker returns the unit that creates the partition of a reservation. For a template it has the specifier
// of systemd for the name of the unit.
func maker(r config.Reservation) string {
	unit := r.Unit
	if strings.Contains(unit, "@.") {
		unit = "%n"
	}
	return made.Service{Unit: unit, Profile: r.Make}.MakeUnit()
}

// lastChoice returns the reservations of the last choice of partitions, by unit. ok is false if there
// was none in this boot. It does not compare boot IDs: in a container, systemd 252 showed a generator a
// different one. /run is empty at boot.
func lastChoice(h *host.Host) (out map[string]runstate.Reservation, ok bool) {
	out = make(map[string]runstate.Reservation)
	p, err := runstate.ReadReservations(h.Runtime())
	if err != nil || p == nil {
		return out, false
	}
	for _, r := range p.Reservations {
		if r.Unit != "" {
			out[r.Unit] = r
		}
	}
	return out, true
}

// wasExclusive reports whether the last choice has an exclusive reservation.
func wasExclusive(h *host.Host) bool {
	p, err := runstate.ReadReservations(h.Runtime())
	return err == nil && p != nil && slices.ContainsFunc(p.Reservations, func(r runstate.Reservation) bool { return r.Exclusive })
}

// ListMissing reports whether the list of partitions is missing although the daemon has run in this
// boot, for example because the package was removed and installed again. At boot dcm-apply.service
// writes the list before the daemon starts.
func ListMissing(h *host.Host) bool {
	list, err := runstate.ReadReservations(h.Runtime())
	if err != nil || list != nil {
		return false
	}
	_, err = os.Stat(config.DefaultPaths(h.Root).Kept)
	return err == nil
}

// ReserveDue reports whether partitions have to be chosen: the reservations have changed since the
// last choice, or the list is missing although a profile is selected, or there are reservations or
// leases. It returns an error if a unit has a Slice= that does not permit its reservation.
func ReserveDue(h *host.Host, list []config.Reservation, selected bool) (bool, error) {
	due, err := reserveDue(h, list)
	if err == nil && !due {
		due = (selected || len(list) > 0 || len(host.LeaseUnits(h)) > 0) && ListMissing(h)
	}
	if err == nil && due {
		err = Misplaced(h, list)
	}
	return due, err
}

// Unmet reports whether a reservation of the last choice has no partitions.
func Unmet(h *host.Host) bool {
	p, err := runstate.ReadReservations(h.Runtime())
	return err == nil && p != nil && slices.ContainsFunc(p.Reservations, func(r runstate.Reservation) bool { return r.Wants > 0 && len(r.Partitions) == 0 })
}

func reserveDue(h *host.Host, list []config.Reservation) (bool, error) {
	p, err := runstate.ReadReservations(h.Runtime())
	if err != nil || p == nil {
		return false, err // the next run of dcm-apply.service chooses
	}
	asks := make(map[string]string)
	for _, r := range p.Reservations {
		asks[r.Name] = r.Asks
	}
	for _, r := range list {
		if asks[r.Name] != r.Asks() {
			return true, nil
		}
		delete(asks, r.Name)
	}
	return len(asks) > 0, nil
}

// Fits returns the check of a planned change for [apply.Difference.Judge]. The check returns why the
// reservations cannot be met on the GPUs after the change, or why their units could not start again.
// Fits returns nil if there are no reservations.
func Fits(h *host.Host, list []config.Reservation) func([]partition.GPU) error {
	if len(list) == 0 {
		return nil
	}
	return func(after []partition.GPU) error {
		if err := Misplaced(h, list); err != nil {
			return err
		}
		return Room(list, after, host.Shortage(h, after))
	}
}

// Room returns an error that names the first reservation that cannot be met on these GPUs. It ignores
// partitions without a device node, and reservations that name a GPU that is missing.
func Room(list []config.Reservation, after []partition.GPU, short *gpu.Shortage) error {
	node, wants, met, err := resolve(list, after, short)
	if err != nil {
		return err
	}
	err = lease.Fit(node, wants)
	for i, r := range met {
		if err == nil {
			break
		}
		first := lease.Fit(node, wants[:i+1])
		switch {
		case first == nil:
		case r.Whole:
			return fmt.Errorf("%s: %s: gpus: these GPUs would have no partition", r.Source, r.Label())
		case first.Error() != err.Error():
			return fmt.Errorf("%s: %s cannot be met: %w; of all, %w", r.Source, r.Label(), first, err)
		default:
			return fmt.Errorf("%s: %s cannot be met: %w", r.Source, r.Label(), err)
		}
	}
	return err
}

// resolve returns the partitions of the GPUs, and what reservations request of them. It leaves out reservations
// whose partitions do not exist yet, and those that name a GPU that is missing.
func resolve(list []config.Reservation, after []partition.GPU, short *gpu.Shortage) (node []runstate.Part, wants []lease.Reservation, met []config.Reservation, err error) {
	var there []string
	for _, g := range after {
		of := g.Kinds()
		n := len(of)
		for i := range n {
			if short != nil && slices.Contains(short.Partitions, runstate.PartName(g.Address, i)) {
				continue
			}
			there = append(there, of[i])
			node = append(node, runstate.Part{
				Name: runstate.PartName(g.Address, i), GPU: g.Address, Index: i, Domain: g.Memory.Domain(i, n), Hive: g.Hive, Kind: of[i],
			})
		}
	}
	for _, r := range list {
		if r.Make != "" {
			continue // its instance is created when its service starts
		}
		among, err := partition.Select(r.GPUs, after)
		if _, missing := errors.AsType[*partition.MissingError](err); missing {
			continue // no change of the others gives it what it had
		}
		if err != nil {
			return nil, nil, nil, fmt.Errorf("%s: %s: gpus: %w", r.Source, r.Label(), err)
		}
		kinds, err := r.Sought.Match(there)
		if err != nil {
			return nil, nil, nil, fmt.Errorf("%s: %s cannot be met: %w", r.Source, r.Label(), err)
		}
		wants = append(wants, lease.Reservation{Name: r.Name, Want: placement.Want{Partitions: r.Partitions, Among: among, Kinds: kinds}, Whole: r.Whole})
		met = append(met, r)
	}
	return node, wants, met, nil
}
