package reservations

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"reflect"
	"slices"
	"strings"

	"dcm/internal/app/leaseservice"
	"dcm/internal/engine/config"
	"dcm/internal/engine/host"
	"dcm/internal/engine/runstate"
	"dcm/internal/gpu"
	"dcm/internal/gpu/partition"
	"dcm/internal/leases/lease"
	"dcm/internal/leases/placement"
	"dcm/internal/leases/reservation"
	"dcm/internal/linux/cdi"
	"dcm/internal/linux/unitname"
)

// Publisher publishes the partitions: the links of reservations, the devices of container engines,
// and the list of partitions. The caller holds the lock on runs.
type Publisher struct {
	Host     *host.Host
	Node     *gpu.Node
	Devices  func(context.Context) ([]gpu.Device, error) // reads the GPUs
	Reserved []config.Reservation
	Kept     []string          // active units that keep their partitions
	GPU      partition.Address // the only GPU that Node has; "": it has all
	Log      *slog.Logger
}

// ReadReservations reads the reservations that are valid, whatever else is wrong with the files.
func (s *Publisher) ReadReservations() {
	var lost []string
	s.Reserved, lost = reservation.Reservations(s.Host)
	for _, unit := range lost {
		s.Log.Error(Unconfined(unit), "unit", unit)
	}
}

// Unconfined returns the message for a unit whose reservation cannot be read.
func Unconfined(unit string) string {
	return "the reservation of " + unit + " cannot be read: it starts unconfined"
}

// AfterRun publishes after a run, unless the published partitions are still correct. They usually are
// if the run has changed no GPU.
func (s Publisher) AfterRun(ctx context.Context, run runstate.Run) {
	if !changed(run) && s.isCurrent(run) {
		return
	}
	if unmet, err := s.Publish(ctx); unmet != nil || err != nil {
		s.Log.Error(errors.Join(unmet, err).Error())
	}
}

func changed(run runstate.Run) bool {
	return slices.ContainsFunc(run.GPUs, runstate.GPU.Changed)
}

// isCurrent reports whether the published partitions agree with the GPUs after the run and with the
// configuration.
func (s Publisher) isCurrent(run runstate.Run) bool {
	last, err := runstate.ReadPartitions(s.Host.Runtime())
	return err == nil && last != nil && last.Boot == s.Host.BootID() && reflect.DeepEqual(s.settings(), settingsIn(last)) && sameModes(run, last.Modes)
}

// ListIsOf reports whether the published list of partitions is that of these devices.
func ListIsOf(h *host.Host, devices []gpu.Device) bool {
	last, err := runstate.ReadPartitions(h.Runtime())
	return err == nil && last != nil && maps.Equal(last.Modes, modesOf(devices))
}

func (s Publisher) settings() map[string]string {
	out := make(map[string]string)
	for _, r := range s.Reserved {
		out[r.Name] = r.Asks()
	}
	return out
}

// sameModes reports whether every GPU had those modes when the run read it last.
func sameModes(run runstate.Run, modes map[string]string) bool {
	for _, g := range run.GPUs {
		if modes[string(g.Address)] != g.Now.Key() {
			return false
		}
	}
	return len(run.GPUs) > 0
}

func settingsIn(p *runstate.Partitions) map[string]string {
	out := make(map[string]string)
	for _, r := range p.Reservations {
		out[r.Name] = r.Asks
	}
	return out
}

// Publish publishes the partitions. It continues after errors. unmet is why reservations cannot be met.
func (s Publisher) Publish(ctx context.Context) (unmet, err error) {
	ctx = context.WithoutCancel(ctx) // also a run that is being stopped leaves correct links
	devices, err := s.Devices(ctx)
	errs := []error{err, s.Node.ReadDetails(ctx, devices)}
	p := runstate.Partitions{Boot: s.Host.BootID(), Modes: modesOf(devices), Parts: partsOf(devices), Reservations: []runstate.Reservation{}}
	links := lease.Links{Dir: s.Host.Path("dev/dcm")}
	now, err := links.Read()
	errs = append(errs, err)
	taken, err := s.leased(ctx)
	if err != nil { // nothing has changed the partitions while there are leases
		return nil, errors.Join(append(errs, err)...)
	}
	taken = append(taken, madeNodes(devices)...)
	cleaning, err := s.cleaning(ctx, devices)
	errs = append(errs, err)
	granted, unmet := cleaning.Reserve(p.Parts, wants(s.Reserved, s.Kept, p.Parts, devices, s.late(devices), s.Log), now, taken)
	nodes, others := make(map[string][]string), make(map[string][]string)
	for _, r := range s.Reserved {
		if r.Make != "" {
			p.Reservations = append(p.Reservations, toMake(r))
			continue
		}
		g := granted[r.Name]
		nodes[r.Name] = g.Nodes
		for _, node := range leaseservice.MissingNodes(s.Host, sharedNodes(p.Parts, g.Nodes)) {
			s.Log.Warn(fmt.Sprintf("%s: does not exist, and reservation %s cannot open it if it is created later; create it at boot", node, r.Name), "reservation", r.Name, "unit", r.Unit)
		}
		s.logChoice(r, g, now[r.Name])
		chosen := runstate.Reservation{
			Name: r.Name, Unit: r.Unit, Wants: wanted(r), Partitions: g.Partitions, Exclusive: r.Exclusive, Share: r.Share, Reason: g.Reason, Devices: r.Devices, Asks: r.Asks(),
		}
		others[r.Name] = s.otherDevices(chosen)
		p.Reservations = append(p.Reservations, chosen)
	}
	if last, err := runstate.ReadPartitions(s.Host.Runtime()); err == nil && last != nil {
		logRemoved(s.Log, last.Reservations, p.Reservations)
	}
	made, madeOthers, err := s.addMade(p.Reservations, p.Parts)
	errs = append(errs, err)
	maps.Copy(nodes, made)
	maps.Copy(others, madeOthers)
	shared := companionLinks(p.Parts, nodes, others)
	errs = append(errs,
		links.Write(merged(nodes, shared)),
		cdi.Write(s.Host.Path("run/cdi"), containers(p, nodes)),
		runstate.PartitionsIn(s.Host.Runtime()).Write(p))
	return unmet, errors.Join(errs...)
}

// PublishParts publishes the partitions after an instance was created for a lease or service, or such an
// instance was destroyed. The other reservations keep their partitions.
func (s Publisher) PublishParts(ctx context.Context) error {
	last, err := runstate.ReadPartitions(s.Host.Runtime())
	if err == nil && last == nil {
		err = errors.New("the partitions are not listed: no run has ended since boot")
	}
	if err != nil {
		return err
	}
	devices, err := s.Devices(ctx)
	if err := errors.Join(err, s.Node.ReadDetails(ctx, devices)); err != nil {
		return err
	}
	links := lease.Links{Dir: s.Host.Path("dev/dcm")}
	nodes, err := links.Read()
	if err != nil {
		return err
	}
	p := *last
	if p.Modes, p.Parts = modesOf(devices), partsOf(devices); s.GPU != "" {
		s.addOthers(&p, last)
	}
	made, others, err := s.addMade(p.Reservations, p.Parts)
	if err != nil {
		return err
	}
	maps.DeleteFunc(nodes, func(name string, _ []string) bool {
		own, _ := strings.CutSuffix(name, unitname.CompanionSuffix)
		return !slices.ContainsFunc(p.Reservations, func(r runstate.Reservation) bool { return r.Name == own && r.Make == "" })
	})
	maps.Copy(nodes, merged(made, companionLinks(p.Parts, made, others)))
	written := links.Write(nodes)
	maps.DeleteFunc(nodes, func(name string, _ []string) bool { return strings.HasSuffix(name, unitname.CompanionSuffix) })
	return errors.Join(
		written,
		cdi.Write(s.Host.Path("run/cdi"), containers(p, nodes)),
		runstate.PartitionsIn(s.Host.Runtime()).Write(p))
}

// addOthers adds the other GPUs of the last list.
func (s Publisher) addOthers(p, last *runstate.Partitions) {
	for address, mode := range last.Modes {
		if address != string(s.GPU) {
			p.Modes[address] = mode
		}
	}
	for _, part := range last.Parts {
		if part.GPU != s.GPU {
			p.Parts = append(p.Parts, part)
		}
	}
	slices.SortStableFunc(p.Parts, func(a, b runstate.Part) int { return cmp.Compare(a.GPU, b.GPU) })
}

// wanted returns the number of partitions that a reservation needs at least.
func wanted(r config.Reservation) int {
	if r.Whole {
		return 1
	}
	return r.Partitions
}

// late returns the GPUs whose partitions are reserved last.
func (s Publisher) late(devices []gpu.Device) map[partition.Address]int {
	cfg, _ := s.Host.Effective()
	if cfg == nil {
		cfg = config.Defaults() // no GPU is dynamic
	}
	return leaseservice.HeldMemory(s.Host, cfg).Late(reservation.Late(cfg, devices))
}

// cleaning returns the partitions whose cleaning failed. PID 1 is not called if there is no reservation, or if no GPU is
// cleaned.
func (s Publisher) cleaning(ctx context.Context, devices []gpu.Device) (lease.Cleaning, error) {
	if len(s.Reserved) == 0 || !slices.ContainsFunc(devices, func(d gpu.Device) bool { return s.Node.Cleans(d.Address) }) {
		return lease.Cleaning{}, nil
	}
	ctx, cancel := context.WithTimeout(ctx, leaseservice.HostTimeout)
	defer cancel()
	return leaseservice.FailedCleaning(ctx, s.Host)
}

// leased returns the nodes in leases, which no reservation gets. PID 1 is busy during a restart, so it
// is not called if there is no reservation or no lease.
func (s Publisher) leased(ctx context.Context) ([]string, error) {
	if len(s.Reserved) == 0 || len(host.LeaseUnits(s.Host)) == 0 {
		return nil, nil
	}
	ctx, cancel := context.WithTimeout(ctx, leaseservice.HostTimeout)
	defer cancel()
	return leaseservice.NewPartitions(s.Host, &config.Config{}, s.Log).LeasedNodes(ctx)
}

// madeNodes returns the nodes of instances of leases, and of services that create them, and of GPUs whose
// modes leases have set.
func madeNodes(devices []gpu.Device) []string {
	var out []string
	for _, d := range devices {
		for _, p := range d.Parts {
			if d.HasMadeMode() || slices.ContainsFunc(d.Made, func(i partition.Instance) bool { return i.Start == p.Start }) {
				out = append(out, p.RenderNode())
			}
		}
	}
	return out
}

func modesOf(devices []gpu.Device) map[string]string {
	out := make(map[string]string)
	for _, g := range gpu.Partitionable(devices) {
		out[string(g.Address)] = g.Shape().Key()
	}
	return out
}

func partsOf(devices []gpu.Device) []runstate.Part {
	out := []runstate.Part{}
	for _, d := range devices {
		if d.SkipReason != "" {
			continue
		}
		for _, p := range d.Parts {
			one := runstate.Part{
				Name: runstate.PartName(d.Address, p.Index), GPU: d.Address, Index: p.Index,
				Domain: d.Memory.Domain(p.Index, len(d.Parts)), NUMA: d.NUMA, Hive: d.Hive,
				Kind:   partition.KindOf(d.Vendor, cmp.Or(p.Profile, d.Shape().String())),
				Render: p.RenderNode(), Memory: p.Bytes, UUID: p.UUID, Companions: p.CompanionNodes,
			}
			if p.Card != "" {
				one.Card = "/dev/dri/" + p.Card
			}
			out = append(out, one)
		}
	}
	return out
}

// wants returns what the configuration reserves on these GPUs. A reservation that names a missing GPU
// gets its partitions from its other GPUs, with a warning.
func wants(list []config.Reservation, kept []string, parts []runstate.Part, devices []gpu.Device, late map[partition.Address]int, log *slog.Logger) []lease.Reservation {
	var out []lease.Reservation
	for _, r := range list {
		w := placement.Want{Partitions: r.Partitions, Place: placement.Place(r.Place), Late: late}
		if r.Broken || r.Make != "" {
			continue
		}
		if len(r.GPUs) > 0 {
			among, err := partition.Select(r.GPUs, gpu.Partitionable(devices))
			if err != nil {
				log.Warn(fmt.Sprintf("reservation %s: %v", r.Name, err), "reservation", r.Name)
			}
			w.Among = append([]partition.Address{}, among...)
		}
		var err error
		if w.Kinds, err = r.Sought.Match(lease.KindsOf(parts)); err != nil {
			log.Warn(fmt.Sprintf("reservation %s: %v", r.Name, err), "reservation", r.Name)
		}
		out = append(out, lease.Reservation{Name: r.Name, Want: w, Whole: r.Whole, Kept: keeps(r, kept)})
	}
	return out
}

// keeps reports whether the unit of a reservation, or an instance of it, is among the units.
func keeps(r config.Reservation, units []string) bool {
	return r.Unit != "" && slices.ContainsFunc(units, func(unit string) bool { return config.Lists([]string{r.Unit}, unit) })
}

func companionNodes(p runstate.Part) []string {
	if len(p.Companions) > 0 {
		return p.Companions
	}
	return []string{lease.CommonNode}
}

// sharedNodes returns the nodes that holders of these partitions have to open too, without duplicates.
func sharedNodes(parts []runstate.Part, own []string) []string {
	var out []string
	for _, p := range parts {
		for _, b := range p.Companions {
			if slices.Contains(own, p.Render) && !slices.Contains(out, b) {
				out = append(out, b)
			}
		}
	}
	return out
}

func merged(a, b map[string][]string) map[string][]string {
	out := maps.Clone(a)
	maps.Copy(out, b)
	return out
}

// containers returns the devices for container engines: each partition, each reservation, and all
// partitions.
func containers(p runstate.Partitions, reserved map[string][]string) []cdi.Device {
	var out []cdi.Device
	with := make(map[string][]string) // a partition's own node → its other nodes
	var all []string
	for _, part := range p.Parts {
		with[part.Render] = companionNodes(part)
		nodes := nodesFor([]string{part.Render}, with)
		out = append(out, cdi.Device{Name: part.Name, Nodes: nodes})
		all = append(all, part.Render)
	}
	if len(out) == 0 {
		return nil
	}
	for name, nodes := range reserved {
		if len(nodes) > 0 && cdi.Valid("reservation-"+name) {
			out = append(out, cdi.Device{Name: "reservation-" + name, Nodes: nodesFor(nodes, with)})
		}
	}
	return append(out, cdi.Device{Name: "all", Nodes: nodesFor(all, with)})
}

// nodesFor returns the nodes, preceded by the nodes that their users have to open too, without
// duplicates.
func nodesFor(nodes []string, with map[string][]string) []string {
	var out []string
	for _, n := range nodes {
		for _, b := range with[n] {
			if !slices.Contains(out, b) {
				out = append(out, b)
			}
		}
	}
	return append(out, nodes...)
}
