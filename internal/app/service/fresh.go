package service

import (
	"context"
	"sync"
	"time"

	"dcm/internal/gpu"
	"dcm/internal/gpu/partition"
)

// fresh is a look at the GPUs that need not be made again at once.
type fresh struct {
	mu      sync.Mutex
	devices []gpu.Device
	until   time.Time
}

// standing is for how long a look stands: what is told of a verdict follows it within
// milliseconds.
const standing = time.Second

func (f *fresh) put(devices []gpu.Device) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.devices, f.until = devices, time.Now().Add(standing)
}

// take returns the devices once; nil if there was no look just now.
func (f *fresh) take() []gpu.Device {
	f.mu.Lock()
	defer f.mu.Unlock()
	devices := f.devices
	f.devices = nil
	if time.Now().After(f.until) {
		return nil
	}
	return devices
}

// noted is a node whose last look at all is kept, for what a run does behind its end:
// the clients wait for that.
type noted struct {
	*gpu.Node
	seen *fresh
}

func (n noted) Wait(ctx context.Context) ([]gpu.Device, error) { return n.note(n.Node.Wait(ctx)) }

func (n noted) Settled(ctx context.Context) ([]gpu.Device, error) { return n.note(n.Node.Settled(ctx)) }

func (n noted) Make(ctx context.Context, steps []partition.Step, tell gpu.Tell) error {
	n.seen.take() // it is about to be otherwise
	return n.Node.Make(ctx, steps, tell)
}

func (n noted) note(devices []gpu.Device, err error) ([]gpu.Device, error) {
	if err == nil {
		n.seen.put(devices)
	}
	return devices, err
}
