package main

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"dcm/internal/gpu/amdsmi"
	"dcm/internal/gpu/amdsmi/standin"
	"dcm/internal/gpu/partition"
)

const first, second = "0000:05:00.0", "0000:26:00.0"

func turn(t *testing.T, lib string, knobs ...string) {
	t.Helper()
	if err := standin.Turn(lib, knobs...); err != nil {
		t.Fatal(err)
	}
}

func TestSet_EachGeneration(t *testing.T) {
	for _, g := range standin.Generations() {
		t.Run(g.Name, func(t *testing.T) {
			lib, root := library(t, g), tree(t)
			turn(t, lib, "sys "+root)
			for _, mode := range partition.ComputeModes() {
				reply := ask(t, amdsmi.Request{Do: amdsmi.SetCompute, Library: lib, GPU: second, Mode: string(mode)})
				if reply.Error != nil {
					t.Fatalf("%s: %+v", mode, reply.Error)
				}
				if got := read(t, root, second, "current_compute_partition"); got != string(mode) {
					t.Errorf("asked for %s, the GPU has %s", mode, got)
				}
				if reply.Set.After != string(mode) || reply.Version != g.Version {
					t.Errorf("asked for %s, answer %+v of version %s", mode, reply.Set, reply.Version)
				}
			}
			if got := read(t, root, first, "current_compute_partition"); got != "TPX" {
				t.Errorf("the other GPU has %s now", got)
			}
			setMemory(t, g, lib, root)
		})
	}
}

func setMemory(t *testing.T, g standin.Generation, lib, root string) {
	known := g.Name != "towards-6.3"
	for _, mode := range []string{"NPS1", "NPS4", "NPS8", "NPS2"} {
		reply := ask(t, amdsmi.Request{Do: amdsmi.SetMemory, Library: lib, GPU: first, Mode: mode})
		if !known {
			wantError(t, reply, amdsmi.UnknownNumber, "memory mode numbers of libamd_smi 24.7.0.0")
			if got := read(t, root, first, "current_memory_partition"); got != "NPS2" {
				t.Errorf("refused, and the GPU has %s", got)
			}
			continue
		}
		if reply.Error != nil {
			t.Fatalf("%s: %+v", mode, reply.Error)
		}
		if got := read(t, root, first, "current_memory_partition"); got != mode {
			t.Errorf("asked for %s, the GPU has %s", mode, got)
		}
	}
}

func TestInventory_EachGeneration(t *testing.T) {
	want := []amdsmi.GPU{
		{Address: first, UUID: "74ff74a1-0000-1000-80a1-1dbdfff8c2a1", Serial: "0xB6A11DBDFFF8C2A1"},
		{Address: second, UUID: "74ff74a1-0000-1000-80a1-1dbdfff8c2a2", Serial: "0xB6A11DBDFFF8C2A2"},
	}
	for i := range want {
		w := &want[i]
		w.Name, w.Vendor, w.Device = "AMD Instinct MI300X", 0x1002, 0x74a1
		w.Compute, w.Memory, w.Driver, w.DriverVersion = "CPX", "NPS2", "amdgpu", "6.10.5"
	}
	for _, g := range standin.Generations() {
		t.Run(g.Name, func(t *testing.T) {
			lib, root := library(t, g), tree(t)
			turn(t, lib, "sys "+root)
			// In CPX, newer libraries list eight processors for each GPU.
			for _, a := range []string{first, second} {
				file := filepath.Join(root, "bus/pci/devices", a, "current_compute_partition")
				if err := os.WriteFile(file, []byte("CPX\n"), 0o644); err != nil {
					t.Fatal(err)
				}
			}
			reply := ask(t, amdsmi.Request{Do: amdsmi.Inventory, Library: lib})
			if diff := cmp.Diff(want, reply.GPUs, cmpopts.EquateEmpty()); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
			if reply.Library != lib || reply.Version != g.Version || reply.Error != nil {
				t.Errorf("library %q version %q error %+v", reply.Library, reply.Version, reply.Error)
			}
			if !reply.Compute.Known || reply.Memory.Known == (g.Name == "towards-6.3") {
				t.Errorf("compute %+v, memory %+v", reply.Compute, reply.Memory)
			}
		})
	}
}

// Only the first partition of a GPU accepts a mode. After a switch the library still has its former
// list of partitions, so dcm-smi has to find the first one, for switches from and to CPX.
func TestSet_FromManyPartitions(t *testing.T) {
	lib, root := library(t, standin.Latest()), tree(t)
	turn(t, lib, "sys "+root)
	for _, mode := range []string{"CPX", "SPX", "CPX", "DPX"} {
		reply := ask(t, amdsmi.Request{Do: amdsmi.SetCompute, Library: lib, GPU: first, Mode: mode})
		if reply.Error != nil || reply.Set.After != mode {
			t.Errorf("%s: %+v %+v", mode, reply.Set, reply.Error)
		}
	}
}
