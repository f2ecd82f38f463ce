package nvidia

import (
	"path/filepath"
	"time"

	"dcm/internal/gpu"
	"dcm/internal/gpu/openfiles"
	"dcm/internal/gpu/partition"
)

// settings are the options of the vendor.
type settings struct {
	client          client
	conflictingUnit func() string // unit that also configures MIG, "" if none
	createNodes     bool          // a read may create missing device nodes
}

// Option configures the vendor.
type Option func(*settings)

// Program sets the path of dcm-nvml, the library that it loads ("" for the usual places) and
// its first arguments.
func Program(path, library string, args ...string) Option {
	return func(s *settings) { s.client = client{path, args, library, s.client.timeout} }
}

// RequestTimeout sets the timeout of a request. The default is 30 s for a read and 2 min for
// a change.
func RequestTimeout(d time.Duration) Option { return func(s *settings) { s.client.timeout = d } }

// ConflictingUnit sets a function that returns an enabled or running unit that also
// configures MIG, "" for none. dcm changes nothing while there is one.
func ConflictingUnit(name func() string) Option {
	return func(s *settings) { s.conflictingUnit = name }
}

// CreateNodes permits a read to create missing device nodes. It is for a run, which is going
// to change the GPUs. Inspecting a GPU must not create nodes.
func CreateNodes() Option { return func(s *settings) { s.createNodes = true } }

// Open returns the vendor. It reads nothing.
func Open(r gpu.Roots, opts ...Option) gpu.Vendor { return newParts(r, opts...).vendor() }

// parts are the parts of the vendor, by subject.
type parts struct {
	host
	client    *client
	inventory *inventory
	usage     *usageReader
}

func newParts(r gpu.Roots, opts ...Option) *parts {
	s := settings{conflictingUnit: func() string { return "" }}
	for _, o := range opts {
		o(&s)
	}
	p := &parts{host: host{r}, client: &s.client}
	p.inventory = &inventory{host: p.host, client: p.client, conflictingUnit: s.conflictingUnit, createNodes: s.createNodes}
	p.usage = &usageReader{p.host, &p.inventory.lastReply, openfiles.DefaultLimits()}
	return p
}

func (p *parts) vendor() gpu.Vendor {
	return gpu.Vendor{
		Traits:          gpu.Traits{Vendor: partition.NVIDIA, Driver: driver, KernelLogWords: []string{"nvidia", "NVRM"}},
		Inspector:       p.inventory,
		Executor:        &executor{p.host, p.client, &p.inventory.lastReply},
		UsageReader:     p.usage,
		Library:         p.inventory.library,
		Measure:         p.client.measure,
		CrossCheck:      p.inventory.crossCheck,
		PollFingerprint: p.migFingerprint,
		Dropins:         dropins,
	}
}

const driver = "nvidia"

// host has the files of the driver.
type host struct{ gpu.Roots }

// module returns the driver's kernel module.
func (h host) module() gpu.Module { return h.Module(driver) }

// proc returns a path below /proc/driver/nvidia.
func (h host) proc(elem ...string) string {
	return filepath.Join(append([]string{h.Proc, "driver/nvidia"}, elem...)...)
}
