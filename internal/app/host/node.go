package host

import (
	"context"
	"path/filepath"

	"dcm/internal/engine/config"
	"dcm/internal/gpu"
	"dcm/internal/gpu/amdgpu"
	"dcm/internal/gpu/nvidia"
	"dcm/internal/linux/systemd"
)

// Node is the hardware, set up as the configuration says; without one, by sysfs
// alone.
func (h *Host) Node(cfg *config.Config, opts ...gpu.Option) *gpu.Node {
	if !h.Here() {
		cfg = nil // what is installed here is not for another tree
	}
	return h.node(cfg, opts...)
}

// NodeForRun is the hardware for a run, which may change it.
func (h *Host) NodeForRun(cfg *config.Config, opts ...gpu.Option) *gpu.Node {
	if !h.Here() {
		cfg = nil
	}
	return h.open(cfg, h.nvidia(h.roots(), nvidia.CreateNodes()), opts...)
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
	return h.open(cfg, h.nvidia(h.roots()), opts...)
}

func (h *Host) open(cfg *config.Config, nv gpu.Vendor, opts ...gpu.Option) *gpu.Node {
	roots := h.roots()
	return gpu.Open(roots.Sys, []gpu.Vendor{amd(roots, cfg), nv}, append([]gpu.Option{gpu.Leases(h.leases)}, opts...)...)
}

func (h *Host) roots() gpu.Roots {
	return gpu.Roots{Sys: h.Path("sys"), Proc: h.Path("proc"), Dev: h.Path("dev")}
}

func amd(roots gpu.Roots, cfg *config.Config) gpu.Vendor {
	if cfg == nil || cfg.Backend == config.Sysfs {
		return amdgpu.Open(roots)
	}
	return amdgpu.Open(roots, amdgpu.Library(amdgpu.SMI{Library: cfg.Library}, cfg.Backend == config.AMDSMI))
}

// nvml is the program that loads NVIDIA's library.
const nvml = "/usr/libexec/dcm/dcm-nvml"

// nvidia is asked through its library alone, which is not for another tree.
func (h *Host) nvidia(roots gpu.Roots, opts ...nvidia.Option) gpu.Vendor {
	if !h.Here() {
		return nvidia.Open(roots)
	}
	return nvidia.Open(roots, append(opts, nvidia.Program(nvml, ""), nvidia.ConflictingUnit(h.rival))...)
}

// manager sets MIG at boot from a configuration of its own.
const manager = "nvidia-mig-manager.service"

// rival is that unit while it is enabled, "" else.
func (h *Host) rival() string {
	if _, masked := systemd.Installed(h.Path(), manager); masked {
		return ""
	}
	for _, dir := range []string{"etc/systemd/system", "run/systemd/system", "usr/lib/systemd/system"} {
		for _, kind := range []string{"wants", "requires"} {
			found, _ := filepath.Glob(h.Path(dir, "*."+kind, manager)) // the pattern is in order
			if len(found) > 0 {
				return manager
			}
		}
	}
	return ""
}
