package amdgpu

import (
	"encoding/binary"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"dcm/internal/gpu"
	"dcm/internal/gpu/partition"
	"dcm/internal/testkit/sim"
	"dcm/internal/testkit/sim/simtest"
)

// inMode returns a node whose GPUs are in the mode and report their usage in the format.
func inMode(t *testing.T, format sim.UsageFormat, mode partition.Compute) backend {
	t.Helper()
	kind, err := sim.LookupKind("mi300x-8")
	if err != nil {
		t.Fatal(err)
	}
	s := simtest.StartKind(t, kind.Scaled(2), sim.Options{UsageFormat: format})
	n := whole(gpu.Roots{Sys: s.Sys, Proc: "/proc", Dev: s.Dev})
	b := backend{sim: s, node: n, set: n}
	if mode != partition.SPX {
		if err := b.node.modes.switchAll(patient(t), b.switches(t, mode), func(partition.Step, bool, error) {}); err != nil {
			t.Fatal(err)
		}
	}
	return b
}

// use simulates the use of partitions by processes.
func (b backend) use(t *testing.T, all ...sim.Using) {
	t.Helper()
	for _, u := range all {
		if err := b.sim.Use(u); err != nil {
			t.Fatal(err)
		}
	}
}

// uses measures the usage of each partition, by its name.
func (b backend) uses(t *testing.T) map[string]gpu.PartitionUsage {
	t.Helper()
	devices := b.devices(t)
	if err := b.node.all.ReadDetails(patient(t), devices); err != nil {
		t.Fatal(err)
	}
	uses, err := b.node.all.Measure(patient(t), devices)
	if err != nil {
		t.Fatal(err)
	}
	out := make(map[string]gpu.PartitionUsage)
	for _, u := range uses {
		out[fmt.Sprintf("%s-%d", u.GPU, u.Index)] = u
	}
	return out
}

func TestMeasure_EveryKernel(t *testing.T) {
	busy := uint64(37)
	pid := os.Getpid()
	for _, test := range []struct {
		format  sim.UsageFormat
		spx     string // NoBusyReason of a GPU with one partition; "" if its busy time is known
		cpx     string
		workers bool // the format also has accumulated sums
	}{
		{format: sim.UsagePartitions},
		{format: sim.UsageAttributes},
		{format: sim.UsageGPU16, workers: true},
		{format: sim.UsageGPU17, workers: true},
		{format: sim.UsageGPU18, workers: true},
		{format: sim.UsageSums, cpx: "needs two readings", workers: true},
		{format: sim.UsageGPU13, cpx: "version 1.3 has no data of partitions"},
		{format: sim.UsageNothing, cpx: "the driver does not report it for partitions"},
		{format: sim.UsageShort, cpx: "the table is truncated (found 244 bytes, its header says 488)"},
		{format: sim.UsageOther, cpx: "version 1.77 has no data of partitions, or is unknown to dcm"},
	} {
		t.Run("format "+string(test.format), func(t *testing.T) {
			t.Parallel()
			for _, m := range []struct {
				mode       partition.Compute
				part       string
				why        string
				own, bytes uint64
			}{
				{partition.SPX, "0000:05:00.0-0", "", 1 << 30, 1<<30 + 297271296},
				{partition.CPX, "0000:26:00.0-7", test.cpx, 1 << 30, 1 << 30},
			} {
				b := inMode(t, test.format, m.mode)
				b.use(t, sim.Using{Partition: m.part, Busy: &busy, PID: pid, VRAM: m.own})
				b.uses(t)
				all := b.uses(t)
				if want := 2 * m.mode.Partitions(8); len(all) != want {
					t.Fatalf("%s: %d partitions, want %d", m.mode, len(all), want)
				}
				u := all[m.part]
				if u.NoBytesReason != "" || u.Bytes != m.bytes || !cmp.Equal(u.Processes, []gpu.Process{{PID: pid, Bytes: m.own}}) {
					t.Errorf("%s: the memory in use is %d (%s), of %+v", m.mode, u.Bytes, u.NoBytesReason, u.Processes)
				}
				known := m.why == "" && u.NoBusyReason == "" && u.Busy == 37
				if !known && (m.why == "" || !strings.Contains(u.NoBusyReason, m.why)) {
					t.Errorf("%s: busy is %v, %q, want %q", m.mode, u.Busy, u.NoBusyReason, m.why)
				}
				if test.workers && (u.Counter.Cycles == 0 || u.Counter.Sum != 37*u.Counter.Cycles) {
					t.Errorf("%s: counters are %+v", m.mode, u.Counter)
				}
				delete(all, m.part)
				for name, other := range all {
					if other.Busy != 0 || len(other.Processes) > 0 || other.Bytes == 1<<30 {
						t.Errorf("%s: %s has no user: %+v", m.mode, name, other)
					}
				}
			}
		})
	}
}

func TestMeasure_HiddenPartition(t *testing.T) {
	b := inMode(t, sim.UsagePartitions, partition.CPX)
	devices := b.devices(t)
	uses, err := b.node.all.Measure(patient(t), devices) // without Detail, as if the device cgroup hid the ids
	if err != nil || len(uses) != 16 {
		t.Fatalf("%d uses, %v", len(uses), err)
	}
	for _, u := range uses {
		if u.NoBytesReason == "" || u.NoBusyReason != "" {
			t.Fatalf("%+v", u)
		}
	}
}

func TestMeasure_WithoutKFD(t *testing.T) {
	f := newFixture(t)
	f.mi300x("0000:05:00.0", "card1")
	f.partition(0, 0x500, 4, 128, "1")
	f.partition(0, 0x500, 4, 129, "2")
	f.write("sys/class/kfd/kfd/topology/nodes/0/gpu_id", "4711\n")
	n := whole(f.roots())
	devices, err := n.all.Devices(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	look := func() string {
		t.Helper()
		uses, err := n.all.Measure(t.Context(), devices)
		if err != nil || len(uses) != 2 {
			t.Fatalf("%+v, %v", uses, err)
		}
		return uses[0].NoBytesReason
	}
	if err := n.all.ReadDetails(t.Context(), devices); err != nil {
		t.Fatal(err)
	}
	if why := look(); why != "the driver has no KFD" {
		t.Errorf("without KFD: %q", why)
	}
	f.write("sys/class/kfd/kfd/proc/12/vram_4711", "a lot\n")
	f.write("sys/class/kfd/kfd/proc/12/vram_x", "5\n")
	if why := look(); !strings.Contains(why, `found "a lot"`) {
		t.Errorf("with a value that is no number: %q", why)
	}
}

func TestMeasure_APU(t *testing.T) {
	f := newFixture(t)
	f.mi300x("0000:05:00.0", "card1")
	f.partition(0, 0x500, 8, 128, "1")
	f.write("sys/class/kfd/kfd/topology/nodes/0/gpu_id", "4711\n")
	f.write("sys/class/kfd/kfd/topology/nodes/0/mem_banks/0/properties", "size_in_bytes 1000\n")
	f.write("sys/class/kfd/kfd/proc/12/vram_4711", "300\n")
	f.write(pciFile("0000:05:00.0", "mem_info_vram_used"), "20\n")
	n := whole(f.roots())
	devices, err := n.all.Devices(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if err := n.all.ReadDetails(t.Context(), devices); err != nil {
		t.Fatal(err)
	}
	for total, want := range map[string]uint64{"64\n": 300, "1000\n": 20} {
		f.write(pciFile("0000:05:00.0", "mem_info_vram_total"), total)
		uses, err := n.all.Measure(t.Context(), devices)
		if err != nil || len(uses) != 1 || uses[0].Bytes != want || uses[0].NoBytesReason != "" {
			t.Errorf("of %q in all: %+v, want %d; %v", total, uses, want, err)
		}
	}
}

// The simulator's tables have the sizes of the kernel's structures of these names.
func TestTableLayouts_KernelSizes(t *testing.T) {
	for _, test := range []struct {
		format sim.UsageFormat
		file   string
		size   int
	}{
		{sim.UsageGPU16, "gpu_metrics", 1664}, {sim.UsageGPU17, "gpu_metrics", 2208}, {sim.UsageGPU18, "gpu_metrics", 3872},
		{sim.UsagePartitions, "xcp/xcp_metrics", 488},
	} {
		b := overSysfs(t, "mi300x-8", sim.Options{UsageFormat: test.format})
		data, err := os.ReadFile(filepath.Join(b.sim.Sys, "bus/pci/devices/0000:05:00.0", test.file))
		if err != nil || len(data) != test.size || int(binary.LittleEndian.Uint16(data)) != test.size {
			t.Errorf("%s %s has %d bytes, want %d; %v", test.format, test.file, len(data), test.size, err)
		}
	}
}

// FuzzTables: parsing any table terminates, and each figure of a valid one is a percentage.
func FuzzTables(f *testing.F) {
	for _, format := range []sim.UsageFormat{sim.UsagePartitions, sim.UsageAttributes, sim.UsageGPU16, sim.UsageGPU17, sim.UsageGPU18, sim.UsageSums, sim.UsageGPU13, sim.UsageShort} {
		kind, err := sim.LookupKind("mi300x-8")
		if err != nil {
			f.Fatal(err)
		}
		n := sim.New(kind, sim.Options{UsageFormat: format})
		for _, file := range []string{"gpu_metrics", "xcp/xcp_metrics"} {
			if text, err := n.ReadFile(f.Context(), "sys/bus/pci/devices/0000:05:00.0/"+file); err == nil {
				f.Add([]byte(text), 0, 1)
			}
		}
	}
	f.Add([]byte{}, 0, 1)
	f.Add([]byte{255, 255, 1, 8}, 7, 8)
	f.Add([]byte{8, 0, 1, 9, 255, 255, 255, 127}, 0, 1)
	f.Add([]byte{0, 0, 1, 6}, -1, 1)
	f.Fuzz(func(t *testing.T, data []byte, index, partitions int) {
		for _, read := range []func() (activity, error){
			func() (activity, error) { return xcpActivity(data) },
			func() (activity, error) { return gpuActivity(data, index, partitions) },
		} {
			a, err := read()
			if err != nil && len(a.busy)+len(a.sums) > 0 && a.hasCycles {
				t.Errorf("%v, and %+v", err, a)
			}
			var u gpu.PartitionUsage
			a.fill(&u)
			if u.Busy < 0 || u.Busy > 100 || u.NoBusyReason != "" && u.Busy != 0 {
				t.Errorf("%+v of %+v", u, a)
			}
		}
	})
}
