package service

import (
	"context"
	"log/slog"
	"sync"
	"time"

	"dcm/internal/engine/apply"
	"dcm/internal/gpu"
	"dcm/internal/gpu/partition"
)

// deviceCache holds a recent reading of the GPUs, so that it is not repeated: a reading through a
// vendor's library starts a program.
type deviceCache struct {
	mu      sync.Mutex
	devices []gpu.Device
	until   time.Time
}

// cacheTTL limits the age of a reading. The status follows a result within milliseconds.
const cacheTTL = time.Second

func (c *deviceCache) put(devices []gpu.Device) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.devices, c.until = devices, time.Now().Add(cacheTTL)
}

// take returns the devices once; nil if there is no recent reading.
func (c *deviceCache) take() []gpu.Device {
	c.mu.Lock()
	defer c.mu.Unlock()
	devices := c.devices
	c.devices = nil
	if time.Now().After(c.until) {
		return nil
	}
	return devices
}

// cachingNode reads and changes the GPUs in a run. It keeps the last reading for the list of
// partitions, which is published after the run while the clients wait. It is an [apply.Reader]
// and an [apply.Executor].
type cachingNode struct {
	node  *gpu.Node
	cache deviceCache
	log   *slog.Logger
}

// forRun returns the node for a run.
func (n *cachingNode) forRun() apply.Node {
	return apply.Node{Reader: n, Use: n.node, Driver: n.node.Drivers(), Modules: n.node.Drivers(), Executor: n}
}

func (n *cachingNode) Wait(ctx context.Context) ([]gpu.Device, error) {
	return n.keep(n.withModeTables(ctx, n.node.Wait))
}

func (n *cachingNode) WaitAfterLoad(ctx context.Context) ([]gpu.Device, error) {
	return n.keep(n.withModeTables(ctx, n.node.WaitAfterLoad))
}

func (n *cachingNode) keep(devices []gpu.Device, err error) ([]gpu.Device, error) {
	if err == nil {
		n.cache.put(devices)
	}
	return devices, err
}

// Devices returns the last reading if it is recent, and reads the GPUs otherwise.
func (n *cachingNode) Devices(ctx context.Context) ([]gpu.Device, error) {
	if devices := n.cache.take(); devices != nil {
		return devices, nil
	}
	return n.node.Devices(ctx)
}

func (n *cachingNode) Execute(ctx context.Context, steps []partition.Step, onStep gpu.StepFunc) error {
	n.cache.take() // the reading is out of date
	return n.node.Execute(ctx, steps, onStep)
}

func (n *cachingNode) PendingWrites() []gpu.PendingWrite { return n.node.PendingWrites() }
