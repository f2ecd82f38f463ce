package amdgpu

import (
	"errors"
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"golang.org/x/sys/unix"

	"dcm/internal/gpu"
	"dcm/internal/gpu/partition"
)

func eight() []partition.Compute {
	return []partition.Compute{partition.SPX, partition.DPX, partition.QPX, partition.CPX}
}

func TestDevices_AllInPCIOrder(t *testing.T) {
	f := newFixture(t)
	f.function("0000:c3:00.0", "030000", "1a03:2000", "ast", "card0") // a BMC's VGA
	f.mi300x("0001:05:00.0", "card3")
	f.mi300x("0000:0c:00.0", "card1")
	f.write(pciFile("0000:0c:00.0", "unique_id"), "5e1c0f9a2b3d4c5e\n")
	f.function("0000:22:00.0", "030000", "1002:73bf", "amdgpu", "card2") // a Radeon
	f.function("0000:23:00.0", "120000", "1002:74a1", "", "")
	f.function("0000:24:00.0", "120000", "1002:74a1", "vfio-pci", "")
	f.function("0000:01:00.0", "010802", "144d:a824", "nvme", "")
	f.node("cpu_cores_count 96\nsimd_count 0\nlocation_id 0\ndomain 0\ndrm_render_minor 0\nnum_xcc 0\n")
	f.partition(0, 0x0c00, 8, 128, "111")
	f.partition(1, 0x0500, 8, 136, "222")

	got, err := whole(f.roots()).all.Devices(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	sources := map[string]string{"model": gpu.Table, "xcc": gpu.Sysfs}
	mi300x := func(a partition.Address) partition.GPU {
		return partition.GPU{Address: a, Vendor: partition.AMD, Device: 0x74a1, XCC: 8, Hive: 8437823954852,
			Compute: partition.SPX, AvailableCompute: eight(),
			Memory: partition.NPS1, AvailableMemory: []partition.Memory{partition.NPS1, partition.NPS4}}
	}
	unused := func(a partition.Address, xcc int) partition.GPU {
		return partition.GPU{Address: a, Vendor: partition.AMD, Device: 0x74a1, XCC: xcc}
	}
	want := []gpu.Device{
		{GPU: mi300x("0000:0c:00.0"), Model: "MI300X", Driver: "amdgpu", NUMA: 1, Card: "card1",
			RenderNodes: []string{"/dev/dri/renderD128"}, ExclusiveNodes: []string{"/dev/kfd", "/dev/dri/renderD128"}, SharedNode: "/dev/kfd", Parts: []gpu.Part{{Minor: 128, XCC: 8, UUID: "GPU-000000000000006f", DriverID: 1}}, UniqueID: "5e1c0f9a2b3d4c5e", Source: sources},
		{GPU: partition.GPU{Address: "0000:22:00.0", Vendor: partition.AMD, Device: 0x73bf}, Model: "0x1002:0x73bf", Driver: "amdgpu", NUMA: 1, Card: "card2",
			SkipReason: "no partition files: the driver shows no current_compute_partition", Source: map[string]string{"model": gpu.Sysfs}},
		{GPU: unused("0000:23:00.0", 8), Model: "MI300X", NUMA: 1,
			SkipReason: "driver not bound", Source: map[string]string{"model": gpu.Table, "xcc": gpu.Table}},
		{GPU: unused("0000:24:00.0", 8), Model: "MI300X", Driver: "vfio-pci", NUMA: 1,
			SkipReason: "bound to vfio-pci, not amdgpu", Source: map[string]string{"model": gpu.Table, "xcc": gpu.Table}},
		{GPU: partition.GPU{Address: "0000:c3:00.0", Vendor: 0x1a03, Device: 0x2000}, Model: "0x1a03:0x2000", Driver: "ast", NUMA: 1, Card: "card0",
			SkipReason: "not an AMD GPU", Source: map[string]string{"model": gpu.Sysfs}},
		{GPU: mi300x("0001:05:00.0"), Model: "MI300X", Driver: "amdgpu", NUMA: 1, Card: "card3",
			RenderNodes: []string{"/dev/dri/renderD136"}, ExclusiveNodes: []string{"/dev/kfd", "/dev/dri/renderD136"}, SharedNode: "/dev/kfd", Parts: []gpu.Part{{Minor: 136, XCC: 8, UUID: "GPU-00000000000000de", DriverID: 2}}, UniqueID: "222", Source: sources},
	}
	if d := cmp.Diff(want, got, cmpopts.IgnoreTypes(gpu.Binding{})); d != "" {
		t.Errorf("devices (-want +got):\n%s", d)
	}
	if d := cmp.Diff([]partition.GPU{want[0].GPU, want[5].GPU}, gpu.Partitionable(got)); d != "" {
		t.Errorf("partitionable (-want +got):\n%s", d)
	}
}

func TestDevices_Partitions(t *testing.T) {
	const a, b = 0x0c00, 0x2200
	for _, test := range []struct {
		name  string
		nodes func(*fixture)
		xcc   int
		nodes128,
		unique string
	}{
		{"the partition's number in the location's top bits", func(f *fixture) {
			for i := range 2 {
				f.partition(0, a|i<<28, 4, 128+i, "77")
				f.partition(0, b|i<<28, 4, 136+i, "88")
			}
		}, 8, "/dev/dri/renderD128 /dev/dri/renderD129", "77"},
		{"the partition's number in the function", func(f *fixture) {
			for i := range 2 {
				f.partition(0, b+i, 4, 136+i, "88")
				f.partition(0, a+i, 4, 128+i, "77")
			}
		}, 8, "/dev/dri/renderD128 /dev/dri/renderD129", "77"},
		{"an id of its own for each partition", func(f *fixture) {
			f.partition(0, a, 4, 128, "77")
			f.partition(0, a|1<<28, 4, 129, "78")
		}, 8, "/dev/dri/renderD128 /dev/dri/renderD129", ""},
		{"a partition that got no DRM device", func(f *fixture) {
			f.partition(0, a, 1, 128, "77")
			f.node("location_id 268438528\ndomain 0\ndrm_render_minor -1\nnum_xcc 1\n")
		}, 8, "/dev/dri/renderD128", "77"},
		{"another domain", func(f *fixture) { f.partition(1, a, 8, 128, "77") }, 8, "", ""},
		{"nodes in another order than their minors", func(f *fixture) {
			for range 9 {
				f.node("cpu_cores_count 4\n")
			}
			f.partition(0, a, 4, 130, "77")
			f.partition(0, a|1<<28, 4, 129, "77")
		}, 8, "/dev/dri/renderD129 /dev/dri/renderD130", "77"},
		{"no topology", func(*fixture) {}, 8, "", ""},
	} {
		t.Run(test.name, func(t *testing.T) {
			f := newFixture(t)
			f.mi300x("0000:0c:00.0", "card1")
			f.mi300x("0000:22:00.0", "card2")
			test.nodes(f)
			got, err := whole(f.roots()).all.Devices(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			type facts struct {
				XCC    int
				Nodes  string
				Unique string
			}
			d := got[0]
			if diff := cmp.Diff(facts{test.xcc, test.nodes128, test.unique},
				facts{d.XCC, strings.Join(d.RenderNodes, " "), d.UniqueID}); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

// A render node that KFD shows for two partitions is a partition of neither: nothing shows whose it is.
// Processes that have it open prevent a change of both GPUs.
func TestDevices_RenderNodeOfTwo(t *testing.T) {
	f := newFixture(t)
	f.mi300x("0000:05:00.0", "card1")
	f.mi300x("0000:26:00.0", "card2")
	f.mi300x("0000:46:00.0", "card3")
	f.partition(0, 0x0500, 8, 128, "1")
	f.partition(0, 0x2600, 8, 128, "2")
	f.partition(0, 0x4600, 8, 144, "3")
	devices, err := whole(f.roots()).all.Devices(t.Context())
	if err != nil || len(devices) != 3 {
		t.Fatalf("%d devices, %v", len(devices), err)
	}
	for i, want := range []int{0, 0, 1} {
		d := devices[i]
		if len(d.Parts) != want || len(d.RenderNodes) != 1 || d.XCC != 8 || d.SkipReason != "" {
			t.Errorf("%s: %d partitions, want %d; nodes %q, %d XCC, %q", d.Address, len(d.Parts), want, d.RenderNodes, d.XCC, d.SkipReason)
		}
	}
}

func TestDevices_Modes(t *testing.T) {
	const a = "0000:0c:00.0"
	for _, test := range []struct {
		name string
		make func(*fixture)
		want partition.GPU
		err  string
	}{
		{"an old driver without lists", func(f *fixture) {
			f.modes(a, "SPX", "", "NPS1", "")
		}, partition.GPU{Compute: "SPX", Memory: "NPS1"}, ""},
		{"no list is supported", func(f *fixture) {
			f.modes(a, "SPX", "Not supported", "", "")
		}, partition.GPU{Compute: "SPX"}, ""},
		{"read-only files", func(f *fixture) {
			f.modes(a, "SPX", "SPX", "NPS1", "")
			f.must(os.Chmod(f.path(pciFile(a, computeFile)), 0o444))
		}, partition.GPU{Compute: "SPX", AvailableCompute: []partition.Compute{"SPX"}, Memory: "NPS1", ReadOnly: true}, ""},
		{"a mode that is not known", func(f *fixture) {
			f.modes(a, "HPX", "SPX", "NPS1", "")
		}, partition.GPU{}, `current_compute_partition holds "HPX", not a mode dcm knows`},
		{"a memory mode that is not known", func(f *fixture) {
			f.modes(a, "SPX", "SPX", "NPS3", "")
		}, partition.GPU{}, `current_memory_partition holds "NPS3", not a mode dcm knows`},
		{"a list with a mode that is not known", func(f *fixture) {
			f.modes(a, "SPX", "SPX, HPX", "NPS1", "")
		}, partition.GPU{}, `available_compute_partition holds "HPX", not a mode dcm knows`},
		{"a list with a hole", func(f *fixture) {
			f.modes(a, "SPX", "SPX", "NPS1", "NPS1,,NPS4")
		}, partition.GPU{}, `available_memory_partition holds "", not a mode dcm knows`},
		{"an unreadable attribute is not a missing one", func(f *fixture) {
			f.modes(a, "SPX", "SPX", "NPS1", "")
			f.must(os.Mkdir(f.path(pciFile(a, availableMemoryFile)), 0o755))
		}, partition.GPU{}, "is a directory"},
	} {
		t.Run(test.name, func(t *testing.T) {
			f := newFixture(t)
			f.function(a, "120000", "1002:74a1", "amdgpu", "card1")
			test.make(f)
			got, err := whole(f.roots()).all.Devices(t.Context())
			if test.err != "" {
				if err == nil || !strings.Contains(err.Error(), test.err) || !strings.Contains(err.Error(), a) {
					t.Errorf("error %v, want one with %q and %s", err, test.err, a)
				}
				if len(got) != 1 || got[0].SkipReason == "" || got[0].Compute != "" {
					t.Errorf("devices %+v, want one with the error as its reason", got)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			test.want.Address, test.want.Vendor, test.want.Device, test.want.XCC = a, partition.AMD, 0x74a1, 8
			if d := cmp.Diff(test.want, got[0].GPU); d != "" {
				t.Errorf("(-want +got):\n%s", d)
			}
		})
	}
}

func TestDevices_VirtualFunction(t *testing.T) {
	f := newFixture(t)
	f.function("0000:02:00.0", "038000", "1002:74b5", "amdgpu", "card1")
	f.modes("0000:02:00.0", "SPX", "SPX", "NPS1", "")
	got, err := whole(f.roots()).all.Devices(t.Context())
	if err != nil || len(got) != 1 || !got[0].ReadOnly || !got[0].Guest || got[0].Model != "MI300X VF" {
		t.Errorf("devices %+v, error %v; want one read-only MI300X VF", got, err)
	}
}

func TestDevices_UnreadableTopology(t *testing.T) {
	f := newFixture(t)
	f.mi300x("0000:0c:00.0", "card1")
	f.must(os.MkdirAll(f.path("sys/class/kfd/kfd/topology/nodes/1/properties"), 0o755))
	_, err := whole(f.roots()).all.Devices(t.Context())
	if !errors.Is(err, unix.EISDIR) {
		t.Errorf("error %v, want EISDIR", err)
	}
}

func TestDevices_NoPCIBus(t *testing.T) {
	got, err := whole(gpu.Roots{Sys: t.TempDir()}).all.Devices(t.Context())
	if err != nil || len(got) != 0 {
		t.Errorf("devices %v, error %v; want none", got, err)
	}
}

// manyGPUs returns a fixture with the given number of GPUs, each with eight partitions.
func manyGPUs(t testing.TB, gpus int) node {
	f := newFixture(t)
	minor := 128
	for gpu := range gpus {
		domain, bus := gpu/8, 0x05+0x20*(gpu%8)
		f.mi300x(fmt.Sprintf("%04x:%02x:00.0", domain, bus), fmt.Sprintf("card%d", gpu))
		for range 8 {
			f.partition(domain, bus<<8, 1, minor, "1")
			minor++
		}
	}
	return whole(f.roots())
}

// BenchmarkDevices measures one read of all devices, the minimum cost of each command.
func BenchmarkDevices(b *testing.B) {
	for _, gpus := range []int{8, 64, 512} {
		b.Run(fmt.Sprintf("%d GPUs", gpus), func(b *testing.B) {
			n := manyGPUs(b, gpus)
			for b.Loop() {
				if got, err := n.all.Devices(b.Context()); err != nil || len(got) != gpus || len(got[gpus-1].RenderNodes) != 8 {
					b.Fatalf("%d devices, %v", len(got), err)
				}
			}
			b.ReportMetric(float64(b.Elapsed().Microseconds())/float64(b.N*gpus), "µs/GPU")
		})
	}
}

func TestDevices_CostIsLinear(t *testing.T) {
	cost := func(gpus int) float64 {
		n := manyGPUs(t, gpus)
		return testing.AllocsPerRun(1, func() {
			if got, err := n.all.Devices(t.Context()); err != nil || len(got) != gpus {
				t.Fatalf("%d devices, %v", len(got), err)
			}
		})
	}
	if few, many := cost(8), cost(64); many > 8.5*few {
		t.Errorf("reading 64 GPUs allocates %.0f times, reading 8 GPUs %.0f times", many, few)
	}
}
