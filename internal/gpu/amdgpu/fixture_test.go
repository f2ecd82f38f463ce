package amdgpu

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"dcm/internal/gpu"
)

// fixture is a directory that looks like a node's /sys, /proc and /dev.
type fixture struct {
	t     testing.TB
	dir   string
	nodes int // of the KFD topology
}

func newFixture(t testing.TB) *fixture {
	t.Helper()
	f := &fixture{t: t, dir: t.TempDir()}
	for _, d := range []string{"sys/bus/pci/devices", "proc", "dev/dri"} {
		f.must(os.MkdirAll(filepath.Join(f.dir, d), 0o755))
	}
	return f
}

func (f *fixture) must(err error) {
	f.t.Helper()
	if err != nil {
		f.t.Fatal(err)
	}
}

func (f *fixture) roots() gpu.Roots {
	return gpu.Roots{Sys: f.path("sys"), Proc: f.path("proc"), Dev: f.path("dev")}
}

func (f *fixture) path(elem ...string) string {
	return filepath.Join(append([]string{f.dir}, elem...)...)
}

func (f *fixture) write(name, text string) {
	f.t.Helper()
	f.must(os.MkdirAll(filepath.Dir(f.path(name)), 0o755))
	f.must(os.WriteFile(f.path(name), []byte(text), 0o644))
}

func (f *fixture) link(name, target string) {
	f.t.Helper()
	f.must(os.MkdirAll(filepath.Dir(f.path(name)), 0o755))
	f.must(os.Symlink(target, f.path(name)))
}

func pciFile(address, name string) string {
	return filepath.Join("sys/bus/pci/devices", address, name)
}

// function adds a PCI function; driver "" leaves it unbound, card "" without a
// DRM device.
func (f *fixture) function(address, class, ids, driver, card string) {
	f.t.Helper()
	var vendor, device string
	if _, err := fmt.Sscanf(ids, "%4s:%4s", &vendor, &device); err != nil {
		f.t.Fatal(err)
	}
	f.write(pciFile(address, "class"), "0x"+class+"\n")
	f.write(pciFile(address, "vendor"), "0x"+vendor+"\n")
	f.write(pciFile(address, "device"), "0x"+device+"\n")
	f.write(pciFile(address, "numa_node"), "1\n")
	if driver != "" {
		f.link(pciFile(address, "driver"), "../../../../bus/pci/drivers/"+driver)
	}
	if card != "" {
		f.write(pciFile(address, "drm/"+card+"/dev"), "226:1\n")
		f.link("sys/class/drm/"+card+"/device", "../../../"+address)
	}
}

// modes adds a GPU's partition files; an empty text leaves the file out.
func (f *fixture) modes(address, compute, available, memory, availableMemory string) {
	f.t.Helper()
	for name, text := range map[string]string{
		computeFile: compute, availableComputeFile: available,
		memoryFile: memory, availableMemoryFile: availableMemory,
	} {
		if text != "" {
			f.write(pciFile(address, name), text+"\n")
		}
	}
}

// mi300x adds a usual GPU in SPX/NPS1.
func (f *fixture) mi300x(address, card string) {
	f.t.Helper()
	f.function(address, "120000", "1002:74a1", "amdgpu", card)
	f.modes(address, "SPX", "SPX, DPX, QPX, CPX", "NPS1", "NPS1, NPS4")
}

// node adds a node to the KFD topology.
func (f *fixture) node(properties string) {
	f.t.Helper()
	f.write(fmt.Sprintf("sys/class/kfd/kfd/topology/nodes/%d/properties", f.nodes), properties)
	f.nodes++
}

// partition adds an active partition's node.
func (f *fixture) partition(domain, location, xcc, minor int, unique string) {
	f.t.Helper()
	f.node(fmt.Sprintf("cpu_cores_count 0\nsimd_count 304\nlocation_id %d\ndomain %d\ndrm_render_minor %d\n"+
		"hive_id 8437823954852\nunique_id %s\nnum_xcc %d\nnum_cp_queues 24\n", location, domain, minor, unique, xcc))
}
