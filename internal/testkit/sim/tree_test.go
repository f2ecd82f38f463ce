package sim

import (
	"fmt"
	"path"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/google/go-cmp/cmp"

	"dcm/internal/gpu/partition"
)

const nodesDir = "sys/class/kfd/kfd/topology/nodes"

// walk visits every entry of the tree.
func walk(n *Node, dir string, visit func(name string, e *Entry)) {
	e, ok := n.Lookup(dir)
	if !ok {
		return
	}
	visit(dir, e)
	for _, name := range e.Names() {
		walk(n, path.Join(dir, name), visit)
	}
}

func contents(t *testing.T, n *Node, name string) string {
	t.Helper()
	text, err := n.ReadFile(t.Context(), name)
	if err != nil {
		t.Fatalf("%s: %v", name, err)
	}
	return strings.TrimSuffix(text, "\n")
}

func names(t *testing.T, n *Node, dir string) []string {
	t.Helper()
	e, err := follow(n, dir, 40)
	if err != nil {
		t.Fatalf("%s: %v", dir, err)
	}
	return e.Names()
}

func TestTree_Kinds(t *testing.T) {
	for _, k := range Kinds() {
		t.Run(k.Name, func(t *testing.T) {
			n := New(k, Options{})
			n.Unload(t.Context())
			whole(t, n)
			n.Load(t.Context(), Parameters{})
			whole(t, n)
		})
	}
}

// whole reports links that lead nowhere, and of files that cannot be read.
func whole(t *testing.T, n *Node) {
	t.Helper()
	walk(n, "", func(name string, e *Entry) {
		if e.Mode&syscall.S_IFMT == syscall.S_IFLNK && path.IsAbs(e.Target) {
			t.Errorf("%s leads out of the tree, to %s", name, e.Target)
		}
		if _, err := follow(n, name, 40); err != nil {
			t.Errorf("%s -> %s: %v", name, e.Target, err)
		}
		if e.Mode&0o400 != 0 && e.read != nil {
			if _, err := e.read(t.Context()); err != nil {
				t.Errorf("%s: %v", name, err)
			}
		}
	})
}

func TestTree_GPU(t *testing.T) {
	n := newNode(t, "mi300x-8-bmc", Options{})
	for name, want := range map[string]string{
		"bus/pci/devices/0000:05:00.0/vendor":                                "0x1002",
		"bus/pci/devices/0000:05:00.0/device":                                "0x74a1",
		"bus/pci/devices/0000:05:00.0/class":                                 "0x120000",
		"bus/pci/devices/0000:05:00.0/numa_node":                             "0",
		"bus/pci/devices/0000:e5:00.0/numa_node":                             "1",
		"bus/pci/devices/0000:05:00.0/current_compute_partition":             "SPX",
		"bus/pci/devices/0000:05:00.0/available_compute_partition":           "SPX, DPX, QPX, CPX",
		"bus/pci/devices/0000:05:00.0/current_memory_partition":              "NPS1",
		"bus/pci/devices/0000:05:00.0/available_memory_partition":            "NPS1, NPS2, NPS4, NPS8",
		"bus/pci/devices/0000:05:00.0/compute_partition_config/xcc/num_inst": "8",
		"bus/pci/devices/0000:05:00.0/drm/renderD128/dev":                    "226:128",
		"bus/pci/drivers/amdgpu/0000:26:00.0/device":                         "0x74a1",
		"class/drm/card0/device/class":                                       "0x030000",
		"class/drm/card1/device/vendor":                                      "0x1002",
		"class/drm/card1/device/driver/module/initstate":                     "live",
		"class/drm/renderD129/device/drm/card2/dev":                          "226:2",
		"dev/char/226:136/device/vendor":                                     "0x1002",
		"dev/char/234:0/dev":                                                 "234:0",
	} {
		if got := contents(t, n, "sys/"+name); got != want {
			t.Errorf("%s: got %q, want %q", name, got, want)
		}
	}
	for name, want := range map[string]bool{
		gpuDir + "0000:03:00.0/" + computeFile: false,
		"sys/bus/pci/drivers/ast/0000:03:00.0": true,
		"dev/dri/renderD191":                   true,
		"dev/dri/card0":                        true,
	} {
		if _, ok := n.Lookup(name); ok != want {
			t.Errorf("%s: there is %v, want %v", name, ok, want)
		}
	}
}

func TestTree_ConfigFile(t *testing.T) {
	n := newNode(t, "mi300x-8", Options{})
	dir := gpuDir + string(first) + "/compute_partition_config/"
	expect(t, "CPX", setConfig(t.Context(), n, first, "CPX"), nil)
	expect(t, "TPX", setConfig(t.Context(), n, first, "TPX"), syscall.EINVAL)
	for name, want := range map[string]string{
		"supported_xcp_configs":        "SPX, DPX, QPX, CPX",
		"supported_nps_configs":        "NPS1, NPS4",
		"xcp_config":                   "CPX",
		"xcc/num_inst":                 "1",
		"dec/num_inst":                 "1",
		"dec/num_shared":               "2",
		"../current_compute_partition": "SPX",
	} {
		if got := contents(t, n, dir+name); got != want {
			t.Errorf("%s: got %q, want %q", name, got, want)
		}
	}
	if e, _ := n.Lookup(pathOf(first) + "/compute_partition_config/xcc/num_inst"); e.Mode&0o777 != 0o400 {
		t.Errorf("num_inst has mode %o, want 0400", e.Mode&0o777)
	}
}

func pathOf(a partition.Address) string { return "sys/" + pciPath(a) }

func TestTree_FixedMemoryMode(t *testing.T) {
	for kind, want := range map[string][2]uint32{
		"mi300x-8":    {0o644, 0o644},
		"mi300a-4":    {0o644, 0o444},
		"mi300x-vf-8": {0o444, 0o444},
	} {
		n := newNode(t, kind, Options{})
		dir := pathOf(n.boards[0].Address) + "/"
		compute, _ := n.Lookup(dir + computeFile)
		memory, _ := n.Lookup(dir + memoryFile)
		if got := [2]uint32{compute.Mode & 0o777, memory.Mode & 0o777}; got != want {
			t.Errorf("%s: modes of the files are %o, want %o", kind, got, want)
		}
		_, listed := n.Lookup(dir + "available_memory_partition")
		if listed != (want[1] == 0o644) {
			t.Errorf("%s: available_memory_partition is there: %v", kind, listed)
		}
	}
}

func TestTree_UnloadedDriver(t *testing.T) {
	n := newNode(t, "mi300x-8-bmc", Options{})
	expect(t, "unload", n.Unload(t.Context()), nil)
	got := []string{}
	for _, dir := range []string{"dev", "dev/dri", "sys/class", "sys/class/drm", "sys/module"} {
		got = append(got, dir+": "+strings.Join(names(t, n, dir), " "))
	}
	want := []string{"dev: dri", "dev/dri: card0", "sys/class: drm", "sys/class/drm: card0 version", "sys/module: "}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("remaining files (-want +got):\n%s", diff)
	}
	for _, name := range []string{"driver", "drm", computeFile, memoryFile, "unique_id"} {
		if _, ok := n.Lookup(pathOf(first) + "/" + name); ok {
			t.Errorf("%s is still there", name)
		}
	}
}

func TestTree_KFDNodes(t *testing.T) {
	n := newNode(t, "mi300x-8", Options{})
	expect(t, "CPX", n.SetCompute(t.Context(), second, "CPX"), nil)
	var got []string
	for id := range names(t, n, nodesDir) {
		dir := fmt.Sprintf("%s/%d/", nodesDir, id)
		p := properties4(contents(t, n, dir+"properties"))
		got = append(got, fmt.Sprintf("%s links %d", p, len(names(t, n, dir+"io_links"))))
	}
	want := []string{
		"cpu links 1", "cpu links 1",
		"bus 5 node 0 minor 128 xcc 8 links 15",
	}
	for p := range 8 {
		want = append(want, fmt.Sprintf("bus 38 node %d minor %d xcc 1 links 15", p, 136+p))
	}
	for i, bus := range []int{0x46, 0x65, 0x85, 0xa6, 0xc6, 0xe5} {
		want = append(want, fmt.Sprintf("bus %d node 0 minor %d xcc 8 links 15", bus, 144+8*i))
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("KFD nodes (-want +got):\n%s", diff)
	}
}

// properties4 picks what distinguishes a node from another.
func properties4(text string) string {
	p := make(map[string]uint64)
	for line := range strings.Lines(text) {
		name, value, _ := strings.Cut(strings.TrimSpace(line), " ")
		p[name], _ = strconv.ParseUint(value, 10, 64)
	}
	if p["simd_count"] == 0 {
		return "cpu"
	}
	at := p["location_id"]
	return fmt.Sprintf("bus %d node %d minor %d xcc %d", at>>8&0xff, at>>28, p["drm_render_minor"], p["num_xcc"])
}

func TestTree_KFDHolders(t *testing.T) {
	n := newNode(t, "mi300x-8", Options{})
	const dir = "sys/class/kfd/kfd/proc"
	a, _ := openKFD(n, 20)
	b, _ := openKFD(n, 100)
	c, _ := openKFD(n, 100)
	if diff := cmp.Diff([]string{"100", "20"}, names(t, n, dir)); diff != "" {
		t.Errorf("three open files (-want +got):\n%s", diff)
	}
	a.Close()
	b.Close()
	if diff := cmp.Diff([]string{"100"}, names(t, n, dir)); diff != "" {
		t.Errorf("one open file (-want +got):\n%s", diff)
	}
	c.Close()
	if left := names(t, n, dir); len(left) > 0 {
		t.Errorf("no open file: %v", left)
	}
}

func TestTree_ScaledNodes(t *testing.T) {
	k, err := LookupKind("mi300x-8-bmc")
	if err != nil {
		t.Fatal(err)
	}
	for _, gpus := range []int{1, 8, 64, 512} {
		n := New(k.Scaled(gpus), Options{Parameters: Parameters{Mode: partition.CPX}})
		if got := len(n.State().GPUs); got != gpus {
			t.Errorf("got %d GPUs, want %d", got, gpus)
		}
		minors, ids := make(map[int]bool), map[uint16]bool{0: true}
		for _, b := range n.boards {
			for _, m := range b.minors {
				if minors[m.number] {
					t.Errorf("%d GPUs: minor %d is there twice", gpus, m.number)
				}
				minors[m.number] = true
			}
		}
		n.mu.Lock()
		for _, g := range kfdGPUs(n) {
			if ids[g.gpuID()] {
				t.Errorf("%d GPUs: gpu_id %d is there twice", gpus, g.gpuID())
			}
			ids[g.gpuID()] = true
			if p := len(hiveOf(n, g.board)); p > 8 {
				t.Errorf("%d GPUs: a hive has %d", gpus, p)
			}
		}
		n.mu.Unlock()
		if !slices.IsSortedFunc(n.boards, func(a, b *board) int { return a.Address.Compare(b.Address) }) {
			t.Errorf("%d GPUs: not in PCI order", gpus)
		}
	}
}

func TestTree_ModuleUseCount(t *testing.T) {
	n := newNode(t, "mi300x-8", Options{})
	count := func(want string) {
		t.Helper()
		got, err := n.ReadFile(t.Context(), "sys/module/amdgpu/refcnt")
		if err != nil || got != want+"\n" {
			t.Errorf("refcnt %q, %v; want %s", got, err, want)
		}
	}
	count("0")
	kfd, err := openKFD(n, 7)
	if err != nil {
		t.Fatal(err)
	}
	count("2")
	drm, err := openDRM(n, n.boards[0], n.boards[0].minors[0], 7)
	if err != nil {
		t.Fatal(err)
	}
	count("3")
	kfd.Close()
	drm.Close()
	count("0")
	if err := n.Inject(Fault{Op: OpUnload, Errno: Errno(syscall.EBUSY), Always: true}); err != nil {
		t.Fatal(err)
	}
	count("1")
	if _, ok := n.Lookup("sys/module/amdgpu/holders/" + user); !ok {
		t.Error("holders of the module lack the module that uses it")
	}
}
