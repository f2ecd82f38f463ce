package host

import (
	"context"
	"os"
	"path/filepath"

	"dcm/internal/engine/apply"
	"dcm/internal/engine/config"
	"dcm/internal/engine/runstate"
	"dcm/internal/gpu"
	"dcm/internal/gpu/amdgpu"
	"dcm/internal/gpu/made"
	"dcm/internal/gpu/nvidia"
	"dcm/internal/gpu/partition"
	"dcm/internal/gpu/record"
	"dcm/internal/linux/systemd"
	"dcm/internal/sanitize"
)

// OpenNode opens the hardware as the configuration says. Without a configuration it uses sysfs
// only.
func OpenNode(h *Host, cfg *config.Config, opts ...gpu.Option) *gpu.Node {
	if !h.Here() {
		cfg = nil // the libraries of this host are not for another tree
	}
	return openNode(h, cfg, opts...)
}

// OpenNodeForRun opens the hardware for a run, which may create device nodes.
func OpenNodeForRun(h *Host, cfg *config.Config, opts ...gpu.Option) *gpu.Node {
	if !h.Here() {
		cfg = nil
	}
	return openVendors(h, cfg, openNVIDIA(h, roots(h), nvidia.CreateNodes()), opts...)
}

// OpenNodeToMake opens one GPU for a change of its MIG instances. The caller excludes other changes of the GPU.
func OpenNodeToMake(h *Host, cfg *config.Config, a partition.Address) *gpu.Node {
	if !h.Here() {
		cfg = nil
	}
	return openVendors(h, cfg, openNVIDIA(h, roots(h), nvidia.CreateNodes(), nvidia.ReuseReply()), gpu.Only(a))
}

// Libraries returns the vendors' libraries, or why one is not used.
func Libraries(ctx context.Context, h *Host) []gpu.Library {
	cfg, err := h.Config()
	if err != nil {
		cfg = &config.Config{}
	}
	return openNode(h, cfg).Libraries(ctx)
}

// openNode lists the vendors.
func openNode(h *Host, cfg *config.Config, opts ...gpu.Option) *gpu.Node {
	return openVendors(h, cfg, openNVIDIA(h, roots(h)), opts...)
}

func openVendors(h *Host, cfg *config.Config, nv gpu.Vendor, opts ...gpu.Option) *gpu.Node {
	roots := roots(h)
	own := []gpu.Option{gpu.Leases(func() []gpu.Holder { return LeaseHolders(h) }), gpu.Made(Claims(h).Made), gpu.Missing(func(present []partition.GPU) []partition.Absent { return missingGPUs(h, present) })}
	return gpu.Open(roots.Sys, []gpu.Vendor{amd(h, roots, cfg), nv}, append(own, opts...)...)
}

// missingGPUs returns the GPUs that are missing. The configuration, which may say that fewer are expected, is
// read only if a known GPU is not present.
func missingGPUs(h *Host, present []partition.GPU) []partition.Absent {
	known, err := runstate.ReadKnown(h.KnownGPUs())
	if err != nil || len(known.Absent(len(present)+1, present)) == 0 {
		return nil // no GPU is known, or all are present
	}
	count := 0
	if cfg, _ := h.Effective(); cfg != nil {
		count = cfg.Count
	}
	return known.Absent(count, present)
}

// Claims returns the MIG instances and compute modes that leases have made.
func Claims(h *Host) made.Claims { return made.Claims{Dir: h.Path(made.Dir)} }

func roots(h *Host) gpu.Roots {
	return gpu.Roots{Sys: h.Path("sys"), Proc: h.Path("proc"), Dev: h.Path("dev")}
}

func amd(h *Host, roots gpu.Roots, cfg *config.Config) gpu.Vendor {
	tables := amdgpu.FactDir(h.Path("run/dcm/modes"))
	if cfg == nil || cfg.Backend == config.Sysfs {
		return amdgpu.Open(roots, tables)
	}
	return amdgpu.Open(roots, tables, amdgpu.Library(amdgpu.SMI{Program: program("dcm-smi"), Library: cfg.Library}, cfg.Backend == config.AMDSMI))
}

// program returns the path of a program that loads a vendor's library. If this program was
// unpacked in another place than that of the package, its own copy is used.
func program(name string) string {
	const installed = "/usr/libexec/dcm"
	self, err := os.Executable()
	if dir := filepath.Dir(self); err == nil && filepath.Base(dir) == "bin" {
		own := filepath.Join(dir, "../libexec/dcm", name)
		if _, err := os.Lstat(own); err == nil {
			return own
		}
	}
	return filepath.Join(installed, name)
}

// RecordSource returns where a record of this host's GPUs is taken. The library of NVIDIA is
// not called for another tree.
func RecordSource(h *Host, cfg *config.Config) record.Source {
	s := record.Source{Roots: roots(h), Node: OpenNode(h, cfg), Program: h.Version, Kernel: h.Kernel()}
	if name, err := os.Hostname(); err == nil {
		s.Host = sanitize.Text(name)
	}
	if h.Here() {
		s.SMI = func(ctx context.Context, trace bool) (record.SMI, error) {
			return readSMI(ctx, amdgpu.SMI{Program: program("dcm-smi"), Library: cfg.Library, Trace: trace})
		}
		s.NVML = []string{program("dcm-nvml")}
	}
	return s
}

// openNVIDIA uses NVIDIA's library, which is not for another tree.
func openNVIDIA(h *Host, roots gpu.Roots, opts ...nvidia.Option) gpu.Vendor {
	if !h.Here() {
		return nvidia.Open(roots)
	}
	return nvidia.Open(roots, append(opts, nvidia.Program(program("dcm-nvml"), ""), nvidia.ConflictingUnit(func() string { return conflictingUnit(h) }))...)
}

func readSMI(ctx context.Context, library amdgpu.SMI) (record.SMI, error) {
	reply, err := library.Inventory(ctx)
	out := record.SMI{Library: reply.Library.String(), GPUs: []record.SMIGPU{}, Refused: reply.Refused}
	for _, g := range reply.GPUs {
		out.GPUs = append(out.GPUs, record.SMIGPU{Address: g.Address, Name: g.Name, Compute: g.Compute, Memory: g.Memory, Driver: g.DriverVersion, Notes: g.Notes})
	}
	return out, err
}

// migManager is the unit of mig-parted, which sets MIG at boot from its own configuration.
const migManager = "nvidia-mig-manager.service"

// conflictingUnit returns migManager if it is enabled, otherwise "".
func conflictingUnit(h *Host) string {
	if _, masked := systemd.Installed(h.Path(), migManager); masked {
		return ""
	}
	for _, dir := range []string{"etc/systemd/system", "run/systemd/system", "usr/lib/systemd/system"} {
		for _, kind := range []string{"wants", "requires"} {
			found, _ := filepath.Glob(h.Path(dir, "*."+kind, migManager)) // the pattern is valid
			if len(found) > 0 {
				return migManager
			}
		}
	}
	return ""
}

// Holders returns the processes that have a GPU open. If some processes could not be inspected,
// it returns the others and a [gpu.PartialError].
func Holders(ctx context.Context, h *Host) ([]runstate.Holder, error) {
	u, err := OpenNode(h, nil).Usage(ctx)
	if err != nil {
		return nil, err
	}
	return apply.Holders(u.Holders), u.Partial()
}
