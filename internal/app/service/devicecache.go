package service

import (
	"context"
	"sync"
	"time"

	"dcm/internal/gpu"
	"dcm/internal/gpu/partition"
)

// deviceCache is a recent reading of the GPUs, which need not be repeated.
type deviceCache struct {
	mu      sync.Mutex
	devices []gpu.Device
	until   time.Time
}

// cacheTTL limits the age of a reading. The status follows a verdict within milliseconds.
const cacheTTL = time.Second

func (f *deviceCache) put(devices []gpu.Device) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.devices, f.until = devices, time.Now().Add(cacheTTL)
}

// take returns the devices once; nil if there was no look just now.
func (f *deviceCache) take() []gpu.Device {
	f.mu.Lock()
	defer f.mu.Unlock()
	devices := f.devices
	f.devices = nil
	if time.Now().After(f.until) {
		return nil
	}
	return devices
}

// cachingNode is a node that keeps its last reading for what a run does after its end, while the
// clients wait.
type cachingNode struct {
	*gpu.Node
	seen *deviceCache
}

func (n cachingNode) Wait(ctx context.Context) ([]gpu.Device, error) { return n.note(n.Node.Wait(ctx)) }

func (n cachingNode) WaitAfterLoad(ctx context.Context) ([]gpu.Device, error) {
	return n.note(n.Node.WaitAfterLoad(ctx))
}

func (n cachingNode) Execute(ctx context.Context, steps []partition.Step, tell gpu.StepFunc) error {
	n.seen.take() // it is about to be otherwise
	return n.Node.Execute(ctx, steps, tell)
}

func (n cachingNode) note(devices []gpu.Device, err error) ([]gpu.Device, error) {
	if err == nil {
		n.seen.put(devices)
	}
	return devices, err
}

// Devices returns what the run has seen last, if that was just now.
func (n cachingNode) Devices(ctx context.Context) ([]gpu.Device, error) {
	if devices := n.seen.take(); devices != nil {
		return devices, nil
	}
	return n.Node.Devices(ctx)
}
