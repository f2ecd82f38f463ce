package gather

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"

	"dcm/internal/frontends/status"
	"dcm/internal/gpu"
	"dcm/internal/gpu/partition"
)

// DaemonStatus returns the daemon's account. Only the daemon and the holders can read a GPU with
// exclusive partitions completely.
type DaemonStatus func(context.Context) (status.Account, error)

// DeviceLister returns the GPUs, as [gpu.Node] does.
type DeviceLister interface {
	Devices(ctx context.Context) ([]gpu.Device, error)
}

// Devices returns the GPUs. If this process has no access to a GPU, Devices takes the GPU's data from
// the daemon's account. It returns an error if that fails, since a plan without the GPU would be wrong.
func Devices(ctx context.Context, node DeviceLister, daemon DaemonStatus) ([]gpu.Device, error) {
	devices, unread := node.Devices(ctx)
	withheld := func(d gpu.Device) bool { return d.AccessDenied }
	at := slices.IndexFunc(devices, withheld)
	if at < 0 {
		return devices, unread
	}
	a, err := daemon(ctx)
	if err != nil {
		return devices, errors.Join(unread, fmt.Errorf("%s; the daemon, which may have access, does not answer: %w", devices[at].SkipReason, err))
	}
	unread = withoutWithheld(unread)
	for i := range devices {
		if devices[i].AccessDenied {
			unread = errors.Join(unread, complete(&devices[i], a))
		}
	}
	return devices, unread
}

// withoutWithheld removes the errors about denied access from a joined error.
func withoutWithheld(err error) error {
	all, ok := err.(interface{ Unwrap() []error })
	if !ok {
		return err
	}
	return errors.Join(slices.DeleteFunc(slices.Clone(all.Unwrap()), func(err error) bool { return errors.Is(err, gpu.ErrAccessDenied) })...)
}

// complete copies the data of a GPU from an account.
func complete(d *gpu.Device, a status.Account) error {
	i := slices.IndexFunc(a.GPUs, func(g status.GPU) bool { return g.Address == string(d.Address) })
	if i < 0 {
		return fmt.Errorf("%s; the daemon does not know it", d.SkipReason)
	}
	g := a.GPUs[i]
	if g.Why != "" {
		d.SkipReason = g.Why // the reason is the same for all processes
		return nil
	}
	if d.Vendor == partition.AMD {
		return completeParts(d, g, a.Parts)
	}
	if g.Slots == nil {
		return fmt.Errorf("%s; the daemon's account has no MIG instances", d.SkipReason)
	}
	m := new(partition.MIG)
	if err := m.UnmarshalText([]byte(g.Slots.Laid)); err != nil {
		return fmt.Errorf("%s; the daemon's account is not valid: %w", d.SkipReason, err)
	}
	d.SkipReason, d.MIG, d.MIGPending, d.ModeResetsGPU, d.GeometryBlocked, d.ModeBlocked, d.ExclusiveNodes = "", m, g.Slots.Pending, g.Slots.Resets, g.Slots.Barred, g.Slots.ModeBarred, g.Slots.Closed
	d.Model, d.Name, d.UUID, d.DriverVersion = g.Model, g.Name, g.UUID, g.DriverVersion
	d.Profiles = g.Slots.Kinds
	return nil
}

// completeParts adds the partitions and the XGMI hive of an AMD GPU. Every process can read its modes.
func completeParts(d *gpu.Device, g status.GPU, parts []status.Part) error {
	if d.Compute == "" {
		return fmt.Errorf("%s; its modes cannot be read", d.SkipReason)
	}
	if g.Hive != "" {
		hive, err := strconv.ParseUint(g.Hive, 16, 64)
		if err != nil {
			return fmt.Errorf("%s; the daemon's account has the XGMI hive %q, not a hexadecimal number", d.SkipReason, g.Hive)
		}
		d.Hive = hive
	}
	d.SkipReason, d.Parts, d.RenderNodes = "", nil, nil
	for _, p := range parts {
		if p.GPU == string(d.Address) {
			d.Parts = append(d.Parts, gpu.Part{Index: p.Index, Minor: p.RenderMinor, CUs: p.ComputeUnits, Card: p.Card, ID: p.DriverID, UUID: p.UUID, Bytes: p.Memory})
			d.RenderNodes = append(d.RenderNodes, p.RenderNode)
		}
	}
	d.SharedNode, d.ExclusiveNodes = "/dev/kfd", append([]string{"/dev/kfd"}, d.RenderNodes...)
	return nil
}

// slots returns the data that [complete] reads.
func slots(d gpu.Device) *status.Placements {
	if d.MIG == nil || d.SkipReason != "" {
		return nil
	}
	laid, _ := d.MIG.MarshalText() // never fails
	return &status.Placements{Laid: string(laid), Pending: d.MIGPending, Resets: d.ModeResetsGPU, Barred: d.GeometryBlocked, ModeBarred: d.ModeBlocked, Kinds: d.Profiles, Closed: d.ExclusiveNodes}
}
