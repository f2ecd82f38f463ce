package service

import (
	"context"
	"log/slog"
	"slices"
	"time"

	"dcm/internal/engine/host"
	"dcm/internal/engine/runstate"
	"dcm/internal/frontends/status"
	"dcm/internal/gpu"
	"dcm/internal/gpu/partition"
	"dcm/internal/linux/filelock"
)

// heldMemoryDelay is how long memory without a process may stay before it counts as held: a driver frees the
// memory of a process after its end.
const heldMemoryDelay = 10 * time.Second

// busyMemoryInterval is the interval between readings while a process uses a GPU: its end is no event.
const busyMemoryInterval = 30 * time.Second

// memoryQuietInterval is the least time between two readings, since many leases can start and end together.
const memoryQuietInterval = time.Second

// memoryWatch finds GPUs with memory in use that no process holds, and lists them in a file. It reads the
// memory when that is requested: at the starts and ends of leases and services, when other GPUs are found, at a
// reload of the daemon, and at the watchdog's ticks. It reads it again while a process or held memory is there. A status does not request it:
// a reading starts the vendor's program, and every user can ask for a status.
type memoryWatch struct {
	read    func(context.Context) ([]gpu.MemoryUse, error) // nil without an error: not now
	write   func([]runstate.MemoryHeld) error
	changed func() // after a change of the list
	log     *slog.Logger
	nudged  chan struct{} // of 1

	list   map[partition.Address]runstate.MemoryHeld // also memory that is too new to count
	listed []runstate.MemoryHeld
	warned string
}

func newMemoryWatch(h *host.Host, node *gpu.Node, gpus func() []partition.GPU, changed func(), log *slog.Logger) *memoryWatch {
	w := &memoryWatch{
		read: func(ctx context.Context) ([]gpu.MemoryUse, error) {
			if busy, err := filelock.Held(h.Locks().Run()); err != nil || busy {
				return nil, err
			}
			ctx, cancel := context.WithTimeout(ctx, host.DialTimeout)
			defer cancel()
			return node.MemoryUse(ctx, gpus())
		},
		write: func(list []runstate.MemoryHeld) error {
			return runstate.HeldMemoryIn(h.Runtime()).Write(runstate.HeldMemory{Boot: h.BootID(), GPUs: list})
		},
		changed: changed, log: log, nudged: make(chan struct{}, 1), list: make(map[partition.Address]runstate.MemoryHeld),
	}
	// The list of the daemon before this one in this boot.
	last, err := runstate.HeldMemoryIn(h.Runtime()).Read()
	if err != nil || last == nil || last.Boot != h.BootID() {
		return w
	}
	for _, m := range last.GPUs {
		w.listed, w.list[m.GPU] = append(w.listed, m), m
	}
	return w
}

// managed returns the GPUs of a reading that dcm manages.
func managed(s *status.Inventory) []partition.GPU {
	var out []partition.GPU
	for _, g := range s.GPUs {
		if v, ok := partition.VendorNamed(g.Vendor); ok && g.Managed() {
			out = append(out, partition.GPU{Vendor: v, Address: partition.Address(g.Address)})
		}
	}
	return out
}

func sameGPU(a, b partition.GPU) bool { return a.Vendor == b.Vendor && a.Address == b.Address }

// nudge requests a reading.
func (w *memoryWatch) nudge() {
	select {
	case w.nudged <- struct{}{}:
	default:
	}
}

// run reads until ctx ends.
func (w *memoryWatch) run(ctx context.Context) {
	for ctx.Err() == nil {
		quiet, again := time.After(memoryQuietInterval), (<-chan time.Time)(nil)
		if delay := w.look(ctx, time.Now()); delay > 0 {
			again = time.After(delay)
		}
		select {
		case <-w.nudged:
		case <-again:
		case <-ctx.Done():
		}
		select {
		case <-quiet:
		case <-ctx.Done():
		}
	}
}

// look reads the memory once. It returns after what time it is to be read again, 0 for a request only.
func (w *memoryWatch) look(ctx context.Context, now time.Time) (again time.Duration) {
	uses, err := w.read(ctx)
	if err != nil {
		if text := err.Error(); text != w.warned && ctx.Err() == nil {
			w.warned = text
			w.log.Warn("cannot read the memory in use of the GPUs: " + text)
		}
		return busyMemoryInterval
	}
	w.warned = ""
	before := w.list
	w.list = make(map[partition.Address]runstate.MemoryHeld)
	var listed []runstate.MemoryHeld
	for _, m := range uses {
		if m.Held() == 0 {
			if m.Busy && again == 0 {
				again = busyMemoryInterval
			}
			continue
		}
		again = heldMemoryDelay
		one := runstate.MemoryHeld{GPU: m.GPU, Bytes: m.Held(), Since: now}
		if was, ok := before[m.GPU]; ok {
			one.Since = was.Since
		}
		if w.list[m.GPU] = one; now.Sub(one.Since) >= heldMemoryDelay {
			listed = append(listed, one)
		}
	}
	w.publish(listed)
	return again
}

// publish writes the list if it has changed.
func (w *memoryWatch) publish(listed []runstate.MemoryHeld) {
	if slices.Equal(listed, w.listed) {
		return
	}
	for _, m := range listed {
		if runstate.HeldOn(w.listed, m.GPU) == 0 {
			w.log.Warn(m.String(), "gpu", m.GPU)
		}
	}
	for _, m := range w.listed {
		if runstate.HeldOn(listed, m.GPU) == 0 {
			w.log.Info("the held memory is free again", "gpu", m.GPU)
		}
	}
	if err := w.write(listed); err != nil {
		w.log.Warn(err.Error())
		return
	}
	w.listed = listed
	w.changed()
}
