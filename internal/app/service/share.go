package service

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"path/filepath"
	"reflect"
	"slices"

	"dcm/internal/app/host"
	"dcm/internal/engine/config"
	"dcm/internal/engine/runstate"
	"dcm/internal/exitcode"
	"dcm/internal/gpu"
	"dcm/internal/gpu/partition"
	"dcm/internal/leases/lease"
	"dcm/internal/leases/placement"
	"dcm/internal/linux/cdi"
	"dcm/internal/linux/systemd"
	"dcm/internal/linux/unitname"
)

// partitionPublisher publishes what there is to give away: the links of reservations, what
// container engines are told, and the list of partitions. Whoever calls it holds the
// lock on runs.
type partitionPublisher struct {
	host     *host.Host
	node     *gpu.Node
	seen     *deviceCache // the run's own last look
	reserved []config.Reservation
	log      *slog.Logger
}

// Reserve is what dcm-reserve.service runs: it chooses anew for reservations that have
// changed, while those units that have to move are down. The exit status is 69 only if
// all was written and a reservation cannot be met: after any other failure the daemon runs
// it again.
func Reserve(ctx context.Context, h *host.Host, log *slog.Logger) error {
	if err := h.NeedRoot("choosing partitions"); err != nil {
		return err
	}
	release, err := lockForRun(h)
	if err != nil {
		return err
	}
	defer release()
	s := partitionPublisher{host: h, node: h.Node(nil), seen: new(deviceCache), log: log}
	s.read()
	return chosen(s.publish(ctx))
}

func chosen(unmet, err error) error {
	switch {
	case err != nil:
		return exitcode.With(exitcode.Transient, errors.Join(unmet, err))
	case unmet != nil:
		return exitcode.With(exitcode.Permanent, unmet)
	}
	return nil
}

// read takes the reservations that can be read, whatever else is wrong.
func (s *partitionPublisher) read() {
	var lost []string
	s.reserved, lost = s.host.Reservations()
	for _, unit := range lost {
		s.log.Error(unconfined(unit), "unit", unit)
	}
}

func unconfined(unit string) string {
	return "the reservation of " + unit + " cannot be read: it starts unconfined"
}

// after publishes behind a run, unless what was published holds: where the run has
// changed nothing it mostly does.
func (s partitionPublisher) after(ctx context.Context, run runstate.Run) {
	if !changed(run) && s.holds(run) {
		return
	}
	if unmet, err := s.publish(ctx); unmet != nil || err != nil {
		s.log.Error(errors.Join(unmet, err).Error())
	}
}

func changed(run runstate.Run) bool {
	return slices.ContainsFunc(run.GPUs, func(g runstate.GPU) bool { return g.Before.Key() != g.Now.Key() })
}

// holds tells whether what was published is what there is after the run, and what is asked
// for now.
func (s partitionPublisher) holds(run runstate.Run) bool {
	last, err := runstate.ReadPartitions(s.host.Runtime())
	return err == nil && last != nil && last.Boot == s.host.BootID() && reflect.DeepEqual(s.asks(), asksIn(last)) && asSeen(run, last.Modes) && !kindless(last.Parts)
}

// published reports whether the list of partitions is of these devices.
func published(h *host.Host, devices []gpu.Device) bool {
	last, err := runstate.ReadPartitions(h.Runtime())
	return err == nil && last != nil && maps.Equal(last.Modes, modesOf(devices))
}

// kindless tells whether an older dcm has listed them, without what they are of.
func kindless(list []runstate.Part) bool { return slices.Contains(lease.KindsOf(list), "") }

func (s partitionPublisher) asks() map[string]string {
	out := make(map[string]string)
	for _, r := range s.reserved {
		out[r.Name] = r.Asks()
	}
	return out
}

// asSeen tells whether the run has last seen every GPU with those modes.
func asSeen(run runstate.Run, modes map[string]string) bool {
	for _, g := range run.GPUs {
		if modes[string(g.Address)] != g.Now.Key() {
			return false
		}
	}
	return len(run.GPUs) > 0
}

func asksIn(p *runstate.Partitions) map[string]string {
	out := make(map[string]string)
	for _, r := range p.Reservations {
		out[r.Name] = r.Asks
	}
	return out
}

// publish does all of it that can be done, and returns what cannot: unmet is why
// reservations cannot be met.
func (s partitionPublisher) publish(ctx context.Context) (unmet, err error) {
	ctx = context.WithoutCancel(ctx) // a run that was told to stop leaves links for what there is
	devices, err := s.look(ctx)
	errs := []error{err, s.node.Detail(ctx, devices)}
	p := runstate.Partitions{Version: runstate.Version, Boot: s.host.BootID(), Modes: modesOf(devices), Parts: partsOf(devices), Reservations: []runstate.Reservation{}}
	links := lease.Links{Dir: s.host.Path("dev/dcm")}
	now, err := links.Read()
	errs = append(errs, err)
	taken, err := s.leased(ctx)
	if err != nil { // no run has changed the partitions while there are leases
		return nil, errors.Join(append(errs, err)...)
	}
	granted, unmet := lease.Reserve(p.Parts, wants(s.reserved, p.Parts, devices, s.log), now, taken)
	nodes, shared := make(map[string][]string), make(map[string][]string)
	for _, r := range s.reserved {
		g := granted[r.Name]
		nodes[r.Name] = g.Nodes
		for _, node := range absent(s.host, besideOf(p.Parts, g.Nodes)) {
			s.log.Warn(fmt.Sprintf("%s is not there, and will not open for reservation %s when it comes: have it there at boot", node, r.Name), "reservation", r.Name, "unit", r.Unit)
		}
		if also := besideOf(p.Parts, g.Nodes); len(also) > 0 {
			shared[r.Name+unitname.Beside] = also
		}
		s.tell(r, g, now[r.Name])
		p.Reservations = append(p.Reservations, runstate.Reservation{
			Name: r.Name, Unit: r.Unit, Wants: r.Partitions, Partitions: g.Partitions, Exclusive: r.Exclusive, Share: r.Share, Reason: g.Reason, Asks: r.Asks(),
		})
	}
	errs = append(errs,
		links.Write(both(nodes, shared)),
		cdi.Write(s.host.Path("run/cdi"), containers(s.withoutVendorCDI(p), nodes)),
		runstate.Write(filepath.Join(s.host.Runtime(), runstate.PartitionsFile), p))
	return unmet, errors.Join(errs...)
}

// look is what the run has seen last, if that was just now.
func (s partitionPublisher) look(ctx context.Context) ([]gpu.Device, error) {
	if devices := s.seen.take(); devices != nil {
		return devices, nil
	}
	return s.node.Devices(ctx)
}

// leased are the nodes that leases have, which stay with them: nothing is chosen past
// them. Where nothing is to be chosen, or nobody has a lease, PID 1 is not asked, in the
// middle of a restart.
func (s partitionPublisher) leased(ctx context.Context) ([]string, error) {
	ctx, cancel := context.WithTimeout(ctx, answering)
	defer cancel()
	return (&leaseHost{host: s.host}).leases(ctx, len(s.reserved) > 0 && len(s.host.Leased()) > 0)
}

// tell logs a choice that is another than before.
func (s partitionPublisher) tell(r config.Reservation, g lease.Grant, before []string) {
	switch {
	case len(g.Nodes) == 0:
		s.log.Error(fmt.Sprintf("reservation %s has no partitions: %s", r.Name, g.Reason), "reservation", r.Name, "unit", r.Unit)
	case !reflect.DeepEqual(g.Nodes, before):
		s.log.Info(fmt.Sprintf("reservation %s has %s", r.Name, g.Reason), "reservation", r.Name, "unit", r.Unit)
	}
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
		if d.Why != "" {
			continue
		}
		for _, p := range d.Parts {
			one := runstate.Part{
				Name: fmt.Sprintf("%s-%d", d.Address, p.Index), GPU: d.Address, Index: p.Index,
				Domain: d.Memory.Domain(p.Index, len(d.Parts)), NUMA: d.NUMA, Hive: d.Hive,
				Kind:   partition.KindOf(d.Vendor, cmp.Or(p.Profile, d.Shape().String())),
				Render: p.RenderNode(), Memory: p.Bytes, Beside: p.Beside,
			}
			if p.Card != "" {
				one.Card = "/dev/dri/" + p.Card
			}
			out = append(out, one)
		}
	}
	return out
}

// wants is what the configuration reserves, on these GPUs. One that names a GPU which
// is not there has the others to choose from, and is told of.
func wants(list []config.Reservation, there []runstate.Part, devices []gpu.Device, log *slog.Logger) []lease.Reservation {
	var out []lease.Reservation
	for _, r := range list {
		w := placement.Want{Partitions: r.Partitions, Place: placement.Place(r.Place)}
		if r.Broken {
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
		if w.Kinds, err = r.Sought.Among(lease.KindsOf(there)); err != nil {
			log.Warn(fmt.Sprintf("reservation %s: %v", r.Name, err), "reservation", r.Name)
		}
		out = append(out, lease.Reservation{Name: r.Name, Want: w})
	}
	return out
}

// Common is what every user of a partition has to open beside it, unless it says
// something else.
const Common = "/dev/kfd"

// Opens tells whether who has such partitions may have to open [Common].
func Opens(s partition.Sought) bool { return s.May(partition.AMD) }

func companionNodes(p runstate.Part) []string {
	if len(p.Beside) > 0 {
		return p.Beside
	}
	return []string{Common}
}

// besideOf are the nodes that those with these partitions have to open too, each once.
func besideOf(parts []runstate.Part, own []string) []string {
	var out []string
	for _, p := range parts {
		for _, b := range p.Beside {
			if slices.Contains(own, p.Render) && !slices.Contains(out, b) {
				out = append(out, b)
			}
		}
	}
	return out
}

func both(a, b map[string][]string) map[string][]string {
	out := maps.Clone(a)
	maps.Copy(out, b)
	return out
}

// refresh is the vendor's own service that tells container engines.
const refresh = "nvidia-cdi-refresh.service"

// withoutVendorCDI leaves out what the vendor's own service tells container engines of, with the
// libraries that a container needs beside.
func (s partitionPublisher) withoutVendorCDI(p runstate.Partitions) runstate.Partitions {
	if there, masked := systemd.Installed(s.host.Path(), refresh); there && !masked {
		p.Parts = slices.DeleteFunc(slices.Clone(p.Parts), func(part runstate.Part) bool { return len(part.Beside) > 0 })
	}
	return p
}

// containers is what engines are told: each partition, each reservation, and all.
func containers(p runstate.Partitions, reserved map[string][]string) []cdi.Device {
	var out []cdi.Device
	with := make(map[string][]string) // a partition's own node → what goes with it
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
		if len(nodes) > 0 {
			out = append(out, cdi.Device{Name: "reservation-" + name, Nodes: nodesFor(nodes, with)})
		}
	}
	return append(out, cdi.Device{Name: "all", Nodes: nodesFor(all, with)})
}

// nodesFor are the nodes behind what goes with them, each once.
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
