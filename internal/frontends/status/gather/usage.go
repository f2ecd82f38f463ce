package gather

import (
	"cmp"
	"context"
	"errors"
	"os"
	"slices"
	"strconv"
	"syscall"
	"time"

	"dcm/internal/engine/host"
	"dcm/internal/frontends/status"
	"dcm/internal/gpu"
	"dcm/internal/linux/procstat"
	"dcm/internal/sorting"
)

// Usage measures the use of the partitions. holders are the processes that have devices open. The
// measurement causes work in the driver, so the daemon must not repeat it periodically.
func Usage(ctx context.Context, h *host.Host, holders []gpu.Holder) status.Usage {
	u := status.Usage{Version: status.Version, Taken: time.Now()}
	node := host.OpenNode(h, nil)
	devices, err := node.Devices(ctx)
	if len(devices) > 0 {
		err = errors.Join(err, node.ReadDetails(ctx, devices))
	}
	uses, unread := node.Measure(ctx, devices)
	u.Hide(status.PartUses, errors.Join(err, unread))
	finder := processFinder{host: h, holders: holders, users: make(map[uint32]string), starts: make(map[int]time.Time)}
	for _, p := range parts(devices) {
		one := status.PartUse{Name: p.Name, GPU: p.GPU, Mode: p.Mode, NUMA: p.NUMA, Memory: p.Memory}
		i := slices.IndexFunc(uses, func(u gpu.PartitionUsage) bool { return string(u.GPU) == p.GPU && u.Index == p.Index })
		if i >= 0 {
			fill(&one, uses[i])
			one.Processes = finder.of(p, uses[i].Processes)
		}
		u.Parts = append(u.Parts, one)
	}
	return u
}

func fill(p *status.PartUse, u gpu.PartitionUsage) {
	p.Sum, p.Cycles = u.Counter.Sum, u.Counter.Cycles
	unknown := make(map[string]string)
	if u.NoBytesReason == "" {
		p.Used = &u.Bytes
	} else {
		unknown[status.KeyUsed] = u.NoBytesReason
	}
	if u.NoBusyReason == "" {
		p.Busy = &u.Busy
	} else {
		unknown[status.KeyBusy] = u.NoBusyReason
	}
	if len(unknown) > 0 {
		p.Unknown = unknown
	}
}

// processFinder finds the processes that use a partition.
type processFinder struct {
	host    *host.Host
	holders []gpu.Holder
	users   map[uint32]string // user names, by UID
	starts  map[int]time.Time // by PID
}

// of returns the processes that have memory in a partition, or its nodes open, those with the most
// memory first.
func (c processFinder) of(p status.Part, list []gpu.Process) []status.Process {
	var out []status.Process
	for _, m := range list {
		one := status.Process{PID: m.PID, Memory: &m.Bytes, User: c.user(m.PID), Since: c.started(m.PID)}
		if i := slices.IndexFunc(c.holders, func(h gpu.Holder) bool { return h.PID == m.PID }); i >= 0 {
			one.Command, one.Unit = c.holders[i].Command, c.holders[i].Unit
		} else {
			one.Unit = gpu.UnitOf(c.host.Path("proc"), m.PID)
		}
		out = append(out, one)
	}
	for _, h := range c.holders {
		open := slices.Contains(h.Devices, p.RenderNode) || p.Card != "" && slices.Contains(h.Devices, p.Card)
		if open && !slices.ContainsFunc(out, func(o status.Process) bool { return o.PID == h.PID }) {
			out = append(out, status.Process{PID: h.PID, Command: h.Command, Unit: h.Unit, User: c.user(h.PID), Since: c.started(h.PID)})
		}
	}
	sorting.By(out, func(a, b status.Process) int {
		return cmp.Or(cmp.Compare(bytes(b), bytes(a)), cmp.Compare(a.PID, b.PID))
	})
	return out
}

func bytes(p status.Process) uint64 {
	if p.Memory == nil {
		return 0
	}
	return *p.Memory
}

// started returns when a process was started; the zero time if it has ended.
func (c processFinder) started(pid int) time.Time {
	at, known := c.starts[pid]
	if !known {
		at = procstat.Started(c.host.Path("proc", strconv.Itoa(pid))).Truncate(time.Second)
		c.starts[pid] = at
	}
	return at
}

// user returns the user of a process; "" if it has ended.
func (c processFinder) user(pid int) string {
	info, err := os.Stat(c.host.Path("proc", strconv.Itoa(pid)))
	if err != nil {
		return ""
	}
	st, ok := info.Sys().(*syscall.Stat_t)
	if !ok {
		return ""
	}
	name, known := c.users[st.Uid]
	if !known {
		name = host.UserOrID(strconv.Itoa(int(st.Uid)))
		c.users[st.Uid] = name
	}
	return name
}
