package slurmcmd

import (
	"context"
	"fmt"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"dcm/internal/app/cli/client"
	"dcm/internal/engine/host"
	"dcm/internal/engine/runstate"
	"dcm/internal/frontends/slurm"
	"dcm/internal/frontends/status"
	"dcm/internal/frontends/status/gather"
	"dcm/internal/gpu"
	"dcm/internal/linux/cpus"
)

// inventory is what the lines of gres.conf are made of.
type inventory struct {
	account status.Account
	pool    *runstate.Reservation // Slurm's reservation; nil if there is none
	devices []gpu.Device
	cpus    cpus.Topology
}

// generic returns the generic resources of this node. With an error, only the name of the node is set.
func generic(ctx context.Context, h *host.Host, nvml bool) (slurm.Gres, error) {
	name := nodeName(ctx, h)
	pooled, err := awaitPool(ctx, h)
	if err != nil {
		return slurm.Gres{Node: name}, err
	}
	i, err := read(ctx, h)
	i.pool = pooled
	if err != nil {
		return slurm.Gres{Node: name}, fmt.Errorf("%w: %w", slurm.ErrUnread, err)
	}
	g := i.gres()
	g.Node, g.NVML = name, nvml
	for _, at := range i.account.GPUs {
		if text := i.account.Lacking(at); text != "" {
			g.Note += "; " + text
		}
	}
	switch {
	case nvml && i.outside():
		return slurm.Gres{Node: name}, fmt.Errorf("reservation %q: with NVML slurmd uses all of NVIDIA's GPUs (found partitions outside the reservation)\nhint: use --gres without --nvml", pool)
	case len(g.Devices) == 0:
		return slurm.Gres{Node: name}, slurm.ErrNoPartition
	}
	return g, nil
}

// read reads the GPUs. Until all clients have started, the daemon's status has those from before the change.
// The client that writes gres.conf needs those of now.
func read(ctx context.Context, h *host.Host) (i inventory, err error) {
	i.account = client.Account(ctx, h)
	if i.devices, err = gather.Devices(ctx, host.OpenNode(h, nil), client.FromDaemon(h)); err != nil {
		return i, err
	}
	now, err := gather.InventoryOf(ctx, h, nil, i.devices, status.Inventory{})
	if err != nil {
		return i, err
	}
	i.account.GPUs, i.account.Parts = now.GPUs, now.Parts
	i.cpus, err = cpus.Read(h.Path("sys/devices/system"))
	return i, err
}

const nvidia = "nvidia"

// outside reports whether Slurm's reservation lacks a partition of NVIDIA.
func (i inventory) outside() bool {
	return i.pool != nil && slices.ContainsFunc(i.account.Parts, func(p status.Part) bool {
		g := i.gpu(p)
		return g != nil && g.Vendor == nvidia && !slices.Contains(i.pool.Partitions, p.Name)
	})
}

// gres returns the partitions for Slurm's jobs. With a reservation AMD's are its links below /dev/dcm,
// otherwise the device nodes. A MIG instance has nodes that it shares with others, for which there is no
// link.
func (i inventory) gres() slurm.Gres {
	var g slurm.Gres
	if i.pool != nil {
		g.Note = fmt.Sprintf("The partitions of the reservation %q, of profile %s", pool, i.account.Profile.Applied)
		for n, name := range i.pool.Partitions {
			if at := slices.IndexFunc(i.account.Parts, func(p status.Part) bool { return p.Name == name }); at >= 0 {
				g.Devices = i.appendDevice(g.Devices, i.account.Parts[at], fmt.Sprintf("/dev/dcm/%s/render%d", pool, n))
			}
		}
		return g
	}
	g.Note = "All partitions: grant none of them as leases, see dcm-slurm(7)"
	for _, p := range i.account.Parts {
		g.Devices = i.appendDevice(g.Devices, p, p.RenderNode)
	}
	return g
}

// appendDevice appends a partition, if it has device nodes of its own. node is a node of AMD's.
func (i inventory) appendDevice(to []slurm.Device, p status.Part, node string) []slurm.Device {
	d := slurm.Device{Cores: i.cpus.Near(p.NUMA), Part: p.Name}
	switch at := i.gpu(p); {
	case p.RenderNode == "" || at == nil || at.Vendor != nvidia && len(at.Offers.Compute) == 0:
		return to
	case at.Vendor == nvidia:
		d.Flags, d.Type, d.Files = slurm.NVIDIAFlags, slurm.TypeOf(at.Name, ""), i.nodes(p)
		if len(d.Files) > 1 {
			d.Type = slurm.TypeOf(at.Name, p.Mode)
		}
		if len(d.Files) == 0 || at.Name == "" {
			return to
		}
	default:
		d.Flags, d.Type, d.Files = slurm.AMDFlags, strings.ToLower(slurm.Feature(p.Mode)), []string{node}
	}
	return append(to, d)
}

// gpu returns a partition's GPU, nil if dcm does not manage it.
func (i inventory) gpu(p status.Part) *status.GPU {
	at := slices.IndexFunc(i.account.GPUs, func(g status.GPU) bool { return g.Address == p.GPU && g.Managed() })
	if at < 0 {
		return nil
	}
	return &i.account.GPUs[at]
}

// own matches the nodes of a GPU or MIG instance of NVIDIA. Slurm must not deny other jobs the nodes of
// the driver, such as /dev/nvidiactl.
var own = regexp.MustCompile(`^/dev/(nvidia[0-9]+|nvidia-caps/.+)$`)

// nodes returns the device nodes of a partition of NVIDIA in the order that slurmd uses with NVML: the
// GPU, the GPU instance, the compute instance.
func (i inventory) nodes(p status.Part) []string {
	for _, d := range i.devices {
		for _, part := range d.Parts {
			if string(d.Address) != p.GPU || part.RenderNode() != p.RenderNode {
				continue
			}
			nodes := slices.DeleteFunc(append(slices.Clone(part.CompanionNodes), part.Node), func(n string) bool { return !own.MatchString(n) })
			slices.SortStableFunc(nodes, func(a, b string) int { return strings.Compare(filepath.Dir(a), filepath.Dir(b)) })
			return nodes
		}
	}
	return nil
}
