package host

import (
	"context"

	"dcm/internal/amdgpu"
	"dcm/internal/config"
	"dcm/internal/gpu"
)

// Node is the hardware, set up as the configuration says; without one, by sysfs
// alone.
func (h *Host) Node(cfg *config.Config, opts ...gpu.Option) *gpu.Node {
	if !h.Here() {
		cfg = nil // what is installed here is not for another tree
	}
	return h.node(cfg, opts...)
}

// Libraries names those of the vendors', or says why one is not used.
func (h *Host) Libraries(ctx context.Context) []gpu.Library {
	cfg, err := h.Config()
	if err != nil {
		cfg = &config.Config{}
	}
	return h.node(cfg).Libraries(ctx)
}

// node is where a vendor is added.
func (h *Host) node(cfg *config.Config, opts ...gpu.Option) *gpu.Node {
	roots := gpu.Roots{Sys: h.Path("sys"), Proc: h.Path("proc"), Dev: h.Path("dev")}
	return gpu.Open(roots.Sys, []gpu.Vendor{amd(roots, cfg)}, append([]gpu.Option{gpu.Leases(h.leases)}, opts...)...)
}

func amd(roots gpu.Roots, cfg *config.Config) gpu.Vendor {
	if cfg == nil || cfg.Backend == config.Sysfs {
		return amdgpu.Open(roots)
	}
	return amdgpu.Open(roots, amdgpu.Library(amdgpu.SMI{Library: cfg.Library}, cfg.Backend == config.AMDSMI))
}
