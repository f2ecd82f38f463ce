package leaseservice

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	"dcm/internal/engine/host"
	"dcm/internal/gpu"
	"dcm/internal/gpu/made"
	"dcm/internal/gpu/partition"
	"dcm/internal/leases/drain"
	"dcm/internal/leases/lease"
)

// modeLeases has the times of the last leases that have set or shared a mode, by GPU. A lease can end before
// any reader sees it.
type modeLeases struct {
	mu    sync.Mutex
	given map[partition.Address]time.Time
}

func (m *modeLeases) note(gpu partition.Address) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.given == nil {
		m.given = make(map[partition.Address]time.Time)
	}
	m.given[gpu] = time.Now()
}

// last returns the zero time if this daemon has given none.
func (m *modeLeases) last(gpu partition.Address) time.Time {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.given[gpu]
}

// switchedBy returns the modes that leases have set, by GPU.
func switchedBy(claims []made.Name) map[partition.Address]made.Name {
	out := make(map[partition.Address]made.Name)
	for _, n := range claims {
		if n.IsMode() {
			out[n.GPU] = n
		}
	}
	return out
}

// switchable returns the GPUs whose modes leases switch. It returns none if the profile does not fit. It sets
// [gpu.Holder.Attached] of the holders.
func (p dynamicGPUs) switchable(ctx context.Context, devices []gpu.Device, holders []gpu.Holder, waits drain.Wait) ([]lease.DynamicGPU, error) {
	cfg := p.config()
	atRest := gpu.Partitionable(devices)
	for i := range atRest {
		atRest[i].MadeMode = partition.MadeMode{}
	}
	layout, err := cfg.Profile.Layout(atRest)
	if err != nil || len(layout.Dynamic) == 0 {
		return nil, nil
	}
	if err := p.node.Attach(holders); err != nil {
		return nil, err
	}
	back, err := returning(ctx, p.host)
	if err != nil {
		return nil, err
	}
	check, claims := p.node.BusyCheck(partition.AMD), host.Claims(p.host)
	var out []lease.DynamicGPU
	for _, d := range devices {
		if !layout.Dynamic[d.Address] || d.MIG != nil || d.SkipReason != "" || d.ReadOnly || d.XCCCount() == 0 {
			continue
		}
		m := &lease.ModeGPU{XCC: d.XCCCount(), Now: d.Compute, Rest: layout.Shapes[d.Address].Compute, Available: d.AvailableCompute, Refused: refusal(check, d, devices, holders), Returning: back[d.Address]}
		for _, h := range holders {
			if h.Uses(d) && !slices.Contains(m.Users, userName(h)) {
				m.Users = append(m.Users, userName(h))
			}
		}
		if ago, least := time.Since(claims.Since(made.Name{GPU: d.Address})), cfg.Leases.DwellTime; ago < least {
			m.Recent = fmt.Sprintf("it was switched back %s ago, and dwell-time is %s", ago.Round(time.Second), least)
		}
		one := lease.DynamicGPU{GPU: d.Address, Modes: m}
		if waits.Concerns(d.Address) {
			one.Awaited = waits.Holder
		}
		out = append(out, one)
	}
	return out, nil
}

// returning returns the GPUs whose modes systemd is switching back, or has queued to.
func returning(ctx context.Context, h *host.Host) (map[partition.Address]bool, error) {
	conn, err := h.Dial(ctx)
	if err != nil {
		return nil, err
	}
	defer conn.Close()
	units, err := conn.Units.Stopping(ctx, made.ModeUnits)
	out := make(map[partition.Address]bool)
	for _, unit := range units {
		if n, err := made.NameOf(unit); err == nil {
			out[n.GPU] = true
		}
	}
	return out, err
}

// refusal returns why leases must not switch the mode of a GPU: while a process uses another GPU, an
// older driver could not switch it back. A driver whose check is not known is tried if the first switch
// shows the check, or if it makes no difference.
func refusal(check gpu.BusyCheck, d gpu.Device, all []gpu.Device, holders []gpu.Holder) string {
	const required = "switching its mode for a lease requires a driver that checks each GPU alone (Linux 6.17 or later)"
	others := slices.ContainsFunc(all, func(o gpu.Device) bool { return o.Vendor == d.Vendor && o.Address != d.Address && o.SkipReason == "" })
	switch {
	case !others || check == gpu.BusyCheckGPU:
		return ""
	case check == gpu.BusyCheckUnknown:
		if _, needed, idle := gpu.ProbeFor(d.Address, all, holders); !needed || idle {
			return ""
		}
		return required + ": that is not known yet, and no other GPU is idle to determine it"
	}
	return required + ": " + check.String()
}
