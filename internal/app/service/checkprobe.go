package service

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"regexp"
	"time"

	"golang.org/x/sys/unix"

	"dcm/internal/engine/host"
	"dcm/internal/gpu"
	"dcm/internal/gpu/partition"
	"dcm/internal/linux/systemd"
)

// checkProbe attaches a process of dcm to another GPU while a mode is switched for leases, if the driver's
// check before a switch is not known yet. Then the result of the switch shows it, see [gpu.BusyCheck]. The
// process opens the device nodes of an idle GPU, and does nothing with them. It changes no GPU.
type checkProbe struct {
	node   *gpu.Node
	attach func(context.Context, gpu.Device) (end func(), err error) // starts the process
}

const (
	// probeTimeout limits the life of the process: a switch takes less.
	probeTimeout = 2 * time.Minute
	// probeStopTimeout limits the wait for its end.
	probeStopTimeout = 10 * time.Second
)

// errCheckUnknown is the error of a switch that has not shown the driver's check.
var errCheckUnknown = errors.New("cannot determine whether the driver checks each GPU alone before a switch (Linux 6.17 or later)")

// begin starts the process if it is needed. done ends it, and returns an error if the driver's check is
// still not known, or is that of an older driver.
func (p checkProbe) begin(ctx context.Context, a partition.Address) (done func() error, err error) {
	none := func() error { return nil }
	if p.node.BusyCheck(partition.AMD) != gpu.BusyCheckUnknown {
		return none, nil
	}
	devices, err := p.node.Devices(ctx)
	if err != nil {
		return nil, err
	}
	holders, err := p.holders(ctx)
	if err != nil {
		return nil, err
	}
	other, needed, ok := gpu.ProbeFor(a, devices, holders)
	switch {
	case !needed:
		return none, nil
	case !ok:
		return nil, fmt.Errorf("%w: no other GPU is idle", errCheckUnknown)
	}
	end, err := p.attach(ctx, other)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", errCheckUnknown, err)
	}
	if holders, err = p.holders(ctx); err == nil && !gpu.AttachedElsewhere(a, devices, holders) {
		err = fmt.Errorf("%w: a process that may use only %s is attached to other GPUs too", errCheckUnknown, other.Address)
	}
	if err != nil {
		end()
		return nil, err
	}
	return func() error {
		end()
		switch p.node.BusyCheck(partition.AMD) {
		case gpu.BusyCheckGPU:
			return nil
		case gpu.BusyCheckNode:
			return fmt.Errorf("the driver checks all GPUs: %s", gpu.BusyCheckNode)
		}
		return errCheckUnknown
	}, nil
}

// holders returns the processes that use GPUs, with the GPUs that they are attached to.
func (p checkProbe) holders(ctx context.Context) ([]gpu.Holder, error) {
	used, err := p.node.Usage(ctx)
	return used.Holders, err
}

// attachment starts the process of a [checkProbe] as a service.
type attachment struct {
	host *host.Host
	log  *slog.Logger
}

// begin starts the process. Its device cgroup permits only the nodes of one GPU: the driver attaches a process
// to all GPUs that it permits.
func (p attachment) begin(ctx context.Context, d gpu.Device) (end func(), err error) {
	unit := fmt.Sprintf("dcm-attach-%d.service", os.Getpid())
	p.log.Info(fmt.Sprintf("attaching a process to %s, to determine the driver's check before a switch of another GPU", d.Address), "unit", unit)
	conn, err := p.host.Dial(ctx)
	if err != nil {
		return nil, err
	}
	defer conn.Close()
	node := d.Parts[0].RenderNode()
	type allowed struct{ Path, Access string }
	err = conn.Transients.StartNotifying(ctx, systemd.Service{
		Name: unit, Description: "Attach to " + string(d.Address) + " during a switch of another GPU",
		Command: []string{"/usr/libexec/dcm/dcm-service", "attach", node},
		Extra: []systemd.Property{
			{Name: "DevicePolicy", Value: "closed"}, {Name: "DeviceAllow", Value: []allowed{{d.SharedNode, "rw"}, {node, "rw"}}},
			{Name: "RuntimeMaxUSec", Value: uint64(probeTimeout.Microseconds())}, {Name: "Slice", Value: "system-dcm.slice"},
			{Name: "ProtectSystem", Value: "strict"}, {Name: "ProtectHome", Value: "yes"}, {Name: "PrivateNetwork", Value: true},
			{Name: "CapabilityBoundingSet", Value: uint64(0)}, {Name: "NoNewPrivileges", Value: true},
		},
	})
	return func() { p.stop(ctx, unit) }, err
}

func (p attachment) stop(ctx context.Context, unit string) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), probeStopTimeout)
	defer cancel()
	conn, err := p.host.Dial(ctx)
	if err == nil {
		defer conn.Close()
		err = conn.Jobs.Stop(ctx, unit)
	}
	if err != nil {
		p.log.Warn(fmt.Sprintf("cannot stop %s: %v", unit, err))
	}
}

// renderNode is a DRM node.
var renderNode = regexp.MustCompile(`^/dev/dri/renderD[0-9]+$`)

// Attach is what the process of [checkProbe] does: it opens a DRM node and /dev/kfd, reports that it is
// ready, and waits for its end.
func Attach(ctx context.Context, h *host.Host, node string) error {
	if !renderNode.MatchString(node) {
		return fmt.Errorf("%q is not the path of a DRM node", node)
	}
	for _, path := range []string{node, "/dev/kfd"} {
		fd, err := unix.Open(h.Path(path), unix.O_RDWR|unix.O_CLOEXEC, 0)
		if err != nil {
			return fmt.Errorf("cannot open %s: %w", path, err)
		}
		defer unix.Close(fd)
	}
	if err := systemd.NewNotifier(os.Getenv).Ready(); err != nil {
		return err
	}
	<-ctx.Done()
	return nil
}
