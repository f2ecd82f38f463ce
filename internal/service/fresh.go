package service

import (
	"sync"
	"time"

	"dcm/internal/gpu"
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
