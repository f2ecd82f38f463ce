package leaseservice

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"

	"dcm/internal/engine/config"
	"dcm/internal/engine/host"
	"dcm/internal/engine/runstate"
	"dcm/internal/frontends/dbusapi"
	"dcm/internal/gpu"
	"dcm/internal/gpu/made"
	"dcm/internal/gpu/partition"
	"dcm/internal/leases/drain"
	"dcm/internal/leases/lease"
	"dcm/internal/leases/reservation"
)

// checkMake returns the error of a request that makes an instance.
func checkMake(w dbusapi.Request) error {
	if w.Make == "" {
		return nil
	}
	if w.Partitions > 1 && !partition.IsMode(w.Make) || w.GPUs > 0 || w.Share > 0 || w.Exclusive || w.Place != "" || w.Mode != "" || w.Vendor != "" {
		return errors.New("a request that makes an instance has no other partitions, and is neither exclusive nor shared")
	}
	return partition.CheckMade(w.Make)
}

// madeBy returns the leases that have made partitions, by partition.
func madeBy(claims []made.Name) map[string]string {
	out := make(map[string]string)
	for _, n := range claims {
		if !n.IsMode() {
			out[runstate.PartName(n.GPU, n.Start)] = n.Lease
		}
	}
	return out
}

// dynamicGPUs reads the GPUs on which leases and services make instances. Only a request that makes
// something needs them, since their driver needs long for each.
type dynamicGPUs struct {
	host   *host.Host
	node   *gpu.Node
	config func() *config.Config
	known  *knownDynamic
}

// knownDynamic remembers which GPUs are dynamic, so that the others need not be read. The profile assigns GPUs to
// groups by all GPUs.
type knownDynamic struct {
	mu     sync.Mutex
	config *config.Config
	all    []string            // the addresses of the published GPUs
	list   []partition.Address // nil: unknown
	late   *lateGPUs
}

// lateGPUs are the GPUs that are chosen last with a configuration and GPUs.
type lateGPUs struct {
	config *config.Config
	all    []string
	gpus   map[partition.Address]int
}

// lateOf returns the GPUs that are chosen last; nil: unknown.
func (k *knownDynamic) lateOf(cfg *config.Config, all []string) map[partition.Address]int {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.late == nil || k.late.config != cfg || !slices.Equal(k.late.all, all) {
		return nil
	}
	return k.late.gpus
}

func (k *knownDynamic) setLate(cfg *config.Config, all []string, gpus map[partition.Address]int) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.late = &lateGPUs{cfg, all, gpus}
}

// get returns the dynamic GPUs; nil: unknown.
func (k *knownDynamic) get(cfg *config.Config, all []string) []partition.Address {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.config != cfg || !slices.Equal(k.all, all) {
		return nil
	}
	return k.list
}

func (k *knownDynamic) set(cfg *config.Config, all []string, list []partition.Address) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.config, k.all, k.list = cfg, all, list
}

// readKnown returns the GPUs among those that are known to be dynamic. all has the addresses of the published
// GPUs. known is false if all GPUs must be read: leases may switch modes, or a GPU is missing.
func (p dynamicGPUs) readKnown(ctx context.Context, all []string) (out []lease.DynamicGPU, known bool, err error) {
	list := p.known.get(p.config(), all)
	if list == nil {
		return nil, false, nil
	}
	before, err := host.Claims(p.host).List()
	if err != nil {
		return nil, true, err
	}
	devices, err := host.OpenNode(p.host, nil, gpu.Only(list...)).Devices(ctx)
	gpus := gpu.Partitionable(devices)
	if err != nil || len(gpus) != len(list) {
		return nil, false, nil // the full reading reports it
	}
	after, err := host.Claims(p.host).List()
	return withInstances(gpus, before, after, drain.Now(p.host)), true, err
}

// read returns the GPUs. among limits them; nil: all. used has the processes that use the GPUs; nil: GPUs
// whose compute modes leases switch are not returned. all has the addresses of the published GPUs.
func (p dynamicGPUs) read(among []partition.Selector, used *gpu.Usage, all []string) ([]lease.DynamicGPU, error) {
	ctx, cancel := context.WithTimeout(context.Background(), HostTimeout)
	defer cancel()
	cfg := p.config()
	if cfg.Selected == "" {
		return nil, nil
	}
	if len(among) == 0 {
		if out, known, err := p.readKnown(ctx, all); known {
			return out, err
		}
	}
	before, err := host.Claims(p.host).List()
	if err != nil {
		return nil, err
	}
	devices, err := p.node.Devices(ctx)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", lease.ErrUnreadable, err)
	}
	gpus := gpu.Partitionable(devices)
	layout, err := cfg.Profile.Layout(gpus)
	if err != nil {
		return nil, err
	}
	only, err := partition.Select(among, gpus)
	if err != nil {
		return nil, err
	}
	after, err := host.Claims(p.host).List()
	waits := drain.Now(p.host)
	var out []lease.DynamicGPU
	if used != nil {
		var unread error
		if out, unread = p.switchable(ctx, devices, slices.Clone(used.Holders), waits); unread != nil {
			return nil, fmt.Errorf("%w: %w", lease.ErrUnreadable, unread)
		}
	}
	dynamic := slices.DeleteFunc(gpus, func(g partition.GPU) bool { return !layout.DynamicAmong(only, g.Address) })
	unread := missingDynamic(cfg.Profile, devices)
	if len(among) == 0 && unread == nil {
		p.known.set(cfg, all, onlyMIG(dynamic))
	}
	if out = append(out, withInstances(dynamic, before, after, waits)...); len(out) == 0 && unread != nil {
		return nil, unread
	}
	return out, err
}

// missingDynamic returns an error if GPUs are missing that may be dynamic: a later reading may have them.
func missingDynamic(p partition.Profile, devices []gpu.Device) error {
	if len(devices) == 0 || !slices.ContainsFunc(p.Groups, func(g partition.Group) bool { return g.Dynamic }) {
		return nil
	}
	var missing []string
	for _, m := range devices[0].Missing {
		text := string(m.Address) + " is missing"
		if i := slices.IndexFunc(devices, func(d gpu.Device) bool { return d.Address == m.Address }); i >= 0 {
			text += ": " + devices[i].SkipReason
		}
		missing = append(missing, text)
	}
	if missing == nil {
		return nil
	}
	return fmt.Errorf("%w: %s", lease.ErrUnreadable, strings.Join(missing, ", "))
}

// late returns the dynamic GPUs, which are chosen last for leases that create nothing: they would prevent those
// that do. all has the addresses of the published GPUs.
func (p dynamicGPUs) late(ctx context.Context, all []string) map[partition.Address]int {
	cfg := p.config()
	if !slices.ContainsFunc(cfg.Profile.Groups, func(g partition.Group) bool { return g.Dynamic }) {
		return nil
	}
	if out := p.known.lateOf(cfg, all); out != nil {
		return out
	}
	devices, err := p.node.Devices(ctx)
	if err != nil {
		return nil // the placement is not the best
	}
	out := reservation.Late(cfg, devices)
	if missingDynamic(cfg.Profile, devices) == nil {
		p.known.setLate(cfg, all, out)
	}
	return out
}

// onlyMIG returns the addresses of the GPUs; nil if leases switch the compute mode of one.
func onlyMIG(dynamic []partition.GPU) []partition.Address {
	var out []partition.Address
	for _, g := range dynamic {
		if g.Vendor != partition.NVIDIA {
			return nil
		}
		out = append(out, g.Address)
	}
	return out
}

// withInstances returns the GPUs on which instances can be created.
func withInstances(gpus []partition.GPU, before, after []made.Name, waits drain.Wait) []lease.DynamicGPU {
	var out []lease.DynamicGPU
	for _, g := range gpus {
		if g.MIG == nil || g.MIG.Off || g.GeometryBlocked != "" {
			continue
		}
		one := dynamicGPU(g, before, after)
		if waits.Concerns(g.Address) {
			one.Awaited = waits.Holder
		}
		out = append(out, one)
	}
	return out
}

// dynamicGPU returns a GPU with the claims from before and after it was read. Instances come and go
// while a GPU is read, so one that was claimed at either time is not an instance of the profile.
func dynamicGPU(g partition.GPU, before, after []made.Name) lease.DynamicGPU {
	out := lease.DynamicGPU{GPU: g.Address, Offered: g.OfferedProfiles()}
	for _, n := range after {
		if n.GPU == g.Address {
			out.Made = append(out.Made, n)
		}
	}
	for _, i := range g.MIG.Instances {
		has := func(n made.Name) bool { return n.GPU == g.Address && n.Start == i.Start && n.Profile == i.Profile }
		at := slices.IndexFunc(before, has)
		switch {
		case slices.ContainsFunc(out.Made, has):
		case at >= 0:
			out.Made = append(out.Made, before[at])
		default:
			out.Fixed = append(out.Fixed, i)
		}
	}
	return out
}
