package leaseservice

import (
	"context"
	"fmt"
	"math"
	"path/filepath"
	"strconv"
	"strings"

	"dcm/internal/engine/runstate"
	"dcm/internal/gpu/partition"
	"dcm/internal/leases/dmem"
	"dcm/internal/leases/guard"
	"dcm/internal/leases/lease"
	"dcm/internal/linux/systemd"
	"dcm/internal/linux/unitname"
)

// LimitMemory has dcm-guard write the limits, and reads back what the kernel shows of them. Only
// dcm-guard has the permission to write them.
func (p *Host) LimitMemory(ctx context.Context, unit string, caps lease.MemoryLimits) string {
	const not = "shared, not capped: "
	if len(caps) == 0 {
		return not + "the size of a partition's memory is not known"
	}
	if guard.IsOff(p.host) {
		return not + guard.OffReason
	}
	ctx, cancel := context.WithTimeout(ctx, guardTimeout)
	defer cancel()
	conn, err := p.host.Dial(ctx)
	if err != nil {
		return not + err.Error()
	}
	defer conn.Close()
	// A run that was under way may not have seen the lease.
	for range 2 {
		if err := conn.Jobs.RunOnce(ctx, unitname.Guard); err != nil {
			return not + err.Error()
		}
		now, err := dmem.Tree{Root: p.host.Path("sys/fs/cgroup")}.Capped(filepath.Join(unitname.Slice, unit))
		if err == nil && capped(now, caps) {
			return fmt.Sprintf("shared: of the memory you may have %s, by the cgroup", caps)
		}
	}
	return not + p.uncapped()
}

func capped(now, caps map[partition.Address]uint64) bool {
	for gpu, bytes := range caps {
		if has, ok := now[gpu]; !ok || has > bytes {
			return false
		}
	}
	return true
}

// uncapped returns why dcm-guard could not set a limit.
func (p *Host) uncapped() string {
	switch state, err := runstate.ReadGuard(p.host.Runtime()); {
	case err != nil:
		return err.Error()
	case state == nil || state.Uncapped == "":
		return "dcm-guard has not said why"
	default:
		return state.Uncapped
	}
}

// limits are bounds as properties of a unit.
func limits(b lease.CgroupLimits) []systemd.Property {
	var out []systemd.Property
	for _, l := range []struct {
		name  string
		value uint64
	}{
		{"MemoryMax", b.Memory}, {"MemoryHigh", b.MemoryHigh}, {"MemorySwapMax", b.Swap}, {"TasksMax", b.Tasks}, {"CPUQuotaPerSecUSec", b.CPU},
	} {
		if l.value != math.MaxUint64 {
			out = append(out, systemd.Property{Name: l.name, Value: l.value})
		}
	}
	if mask := bitmap(b.CPUs); len(mask) > 0 {
		out = append(out, systemd.Property{Name: "AllowedCPUs", Value: mask})
	}
	return out
}

// bitmap is a list of processors, "0-3,8", as systemd takes it: a bit for each, the
// first one the lowest of the first byte. It is empty for what is no such list.
func bitmap(list string) []byte {
	const most = 1 << 16
	var out []byte
	for part := range strings.SplitSeq(list, ",") {
		from, to, ranged := strings.Cut(part, "-")
		if !ranged {
			to = from
		}
		first, err := strconv.Atoi(from)
		last, other := strconv.Atoi(to)
		if err != nil || other != nil || first < 0 || last < first || last >= most {
			return nil
		}
		for n := first; n <= last; n++ {
			if grow := n/8 + 1 - len(out); grow > 0 {
				out = append(out, make([]byte, grow)...)
			}
			out[n/8] |= 1 << (n % 8)
		}
	}
	return out
}
