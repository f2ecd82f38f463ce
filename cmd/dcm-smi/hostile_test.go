package main

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"dcm/internal/gpu/amdsmi"
	"dcm/internal/gpu/amdsmi/standin"
)

// dcm-smi only reads through a library of an unknown version.
func TestLibrary_UnknownVersionNeverSets(t *testing.T) {
	for _, c := range []struct {
		name   string
		knob   string
		kind   amdsmi.Kind
		text   string
		hidden []string
	}{
		{"next minor", "version 27.2.0", amdsmi.UnknownNumber, "libamd_smi 27.2.0 are not known: known are 23.4.x", nil},
		{"next major", "version 28.0.0", amdsmi.UnknownNumber, "not known", nil},
		{"an old one with new symbols", "version 24.5.2.0", amdsmi.UnknownNumber, "unknown mode numbers", nil},
		{"a new one without its symbol", "version 27.1.0", amdsmi.UnknownNumber, "unknown mode numbers", []string{"amdsmi_get_gpu_kfd_info"}},
		{"garbage", "version \xff\xfe\x01", amdsmi.UnknownVersion, "is not a version", nil},
		{"empty", "version ", amdsmi.UnknownVersion, "is not a version", nil},
		{"null", "version-null", amdsmi.UnknownVersion, "null pointer", nil},
		{"a wild pointer", "version-wild", amdsmi.UnknownVersion, "0x7f0000000010", nil},
		{"without end", "version-endless", amdsmi.UnknownVersion, "has no end", nil},
		{"a status", "version-status 7", amdsmi.Unusable, "status 7", nil},
	} {
		t.Run(c.name, func(t *testing.T) {
			lib, root := library(t, standin.Latest(), c.hidden...), tree(t)
			turn(t, lib, "sys "+root, c.knob)
			for do, mode := range map[amdsmi.Op]string{amdsmi.SetCompute: "CPX", amdsmi.SetMemory: "NPS4"} {
				reply := ask(t, amdsmi.Request{Do: do, Library: lib, GPU: first, Mode: mode})
				wantError(t, reply, c.kind, c.text)
				if reply.Set != nil {
					t.Errorf("something was set: %+v", reply.Set)
				}
			}
			wantUntouched(t, root)
			reply := ask(t, amdsmi.Request{Do: amdsmi.Inventory, Library: lib})
			if reply.Error != nil || len(reply.GPUs) != 2 || reply.GPUs[0].Compute != "TPX" || reply.GPUs[0].Memory != "NPS2" {
				t.Errorf("inventory %+v, error %+v", reply.GPUs, reply.Error)
			}
			if reply.GPUs[0].Serial != "" {
				t.Errorf("serial %q although the layout is not known", reply.GPUs[0].Serial)
			}
			if reply.Compute.Known || !strings.Contains(reply.Compute.Why, c.text) {
				t.Errorf("compute %+v, want why with %q", reply.Compute, c.text)
			}
		})
	}
}

func wantUntouched(t *testing.T, root string) {
	t.Helper()
	for _, gpu := range []string{first, second} {
		if got := read(t, root, gpu, "current_compute_partition") + "/" + read(t, root, gpu, "current_memory_partition"); got != "TPX/NPS2" {
			t.Errorf("%s has %s", gpu, got)
		}
	}
}

func TestLibrary_Broken(t *testing.T) {
	for _, c := range []struct {
		name   string
		knobs  []string
		hidden []string
		kind   amdsmi.Kind
		text   string
	}{
		{"init fails", []string{"init-status 18"}, nil, amdsmi.Unusable, "cannot initialise"},
		{"driver absent", []string{"sys /nonexistent"}, nil, amdsmi.Unusable, "status 34: the driver is not loaded"},
		{"lacks symbols", nil, []string{"amdsmi_init", "amdsmi_get_gpu_device_bdf"}, amdsmi.Unusable, "lacks amdsmi_init, amdsmi_get_gpu_device_bdf"},
		{"the deprecated set was removed", nil, []string{"amdsmi_set_gpu_compute_partition"}, amdsmi.Unusable, "lacks amdsmi_set_gpu_compute_partition"},
		{"too many handles", []string{"handles-many"}, nil, amdsmi.Garbage, "1073741824 handles"},
		{"null handles", []string{"handles-null"}, nil, amdsmi.Garbage, "is null"},
		{"a PCI address that is none", []string{"bdf-garbage"}, nil, amdsmi.Garbage, "as a PCI address"},
		{"modes that are no text", []string{"mode-garbage"}, nil, amdsmi.Garbage, "returned no text"},
		{"success, and nothing done", []string{"set-nothing"}, nil, amdsmi.Mismatch, "TPX is read back"},
	} {
		t.Run(c.name, func(t *testing.T) {
			lib, root := library(t, standin.Latest(), c.hidden...), tree(t)
			turn(t, lib, append(c.knobs, "sys "+root)...)
			wantError(t, ask(t, amdsmi.Request{Do: amdsmi.SetCompute, Library: lib, GPU: first, Mode: "CPX"}), c.kind, c.text)
			wantUntouched(t, root)
		})
	}
}

// The calls that set modes are deprecated since 27.0 and are to be removed. The library still has to be readable.
func TestLibrary_WithoutSet(t *testing.T) {
	lib, root := library(t, standin.Latest(), "amdsmi_set_gpu_compute_partition", "amdsmi_set_gpu_memory_partition", "amdsmi_set_gpu_memory_partition_mode"), tree(t)
	turn(t, lib, "sys "+root)
	reply := ask(t, amdsmi.Request{Do: amdsmi.Inventory, Library: lib})
	if reply.Error != nil || len(reply.GPUs) != 2 || reply.GPUs[0].Compute != "TPX" || reply.Compute.Known {
		t.Errorf("inventory %+v, compute %+v, error %+v", reply.GPUs, reply.Compute, reply.Error)
	}
}

// A library can succeed without knowing the number of a partition: it then returns 0xFFFFFFFF (rocm-systems
// pull request 8531, on MI308X in SPX).
func TestLibrary_PartitionUnknown(t *testing.T) {
	lib, root := library(t, standin.Latest()), tree(t)
	turn(t, lib, "sys "+root, "partition-unknown")
	reply := ask(t, amdsmi.Request{Do: amdsmi.Inventory, Library: lib})
	if reply.Error != nil || len(reply.GPUs) != 2 || reply.GPUs[0].Compute != "TPX" {
		t.Errorf("inventory %+v, error %+v", reply.GPUs, reply.Error)
	}
}

func TestSet_VerifiesMode(t *testing.T) {
	lib, root := library(t, standin.Latest()), tree(t)
	turn(t, lib, "sys "+root, "set-wrong DPX")
	reply := ask(t, amdsmi.Request{Do: amdsmi.SetCompute, Library: lib, GPU: first, Mode: "CPX"})
	wantError(t, reply, amdsmi.Mismatch, "CPX was set on 0000:05:00.0 with number 5, and DPX is read back")
	turn(t, lib, "sys "+root, "set-wrong NPS8")
	reply = ask(t, amdsmi.Request{Do: amdsmi.SetMemory, Library: lib, GPU: first, Mode: "NPS4"})
	wantError(t, reply, amdsmi.Mismatch, "NPS8 is read back")
}

func TestSet_UnknownGPUOrMode(t *testing.T) {
	lib, root := library(t, standin.Latest()), tree(t)
	turn(t, lib, "sys "+root)
	wantError(t, ask(t, amdsmi.Request{Do: amdsmi.SetCompute, Library: lib, GPU: "0000:02:00.0", Mode: "CPX"}),
		amdsmi.NoSuchGPU, "it has 0000:05:00.0, 0000:26:00.0")
	file := filepath.Join(root, "bus/pci/devices", first, "available_compute_partition")
	if err := os.WriteFile(file, []byte("SPX, DPX\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	reply := ask(t, amdsmi.Request{Do: amdsmi.SetCompute, Library: lib, GPU: first, Mode: "CPX"})
	wantError(t, reply, amdsmi.Refused, "not among the available ones")
	if reply.Error.Status != 55 {
		t.Errorf("status %d, want 55", reply.Error.Status)
	}
	wantUntouched(t, root)
}

func TestInventory_InvalidValues(t *testing.T) {
	lib, root := library(t, standin.Latest()), tree(t)
	turn(t, lib, "sys "+root, "asic-garbage")
	reply := ask(t, amdsmi.Request{Do: amdsmi.Inventory, Library: lib})
	if reply.Error != nil || len(reply.GPUs) != 2 || reply.GPUs[0].Name != "" || reply.GPUs[0].Serial != "" || reply.GPUs[0].Compute != "TPX" {
		t.Errorf("%+v %+v", reply.GPUs, reply.Error)
	}
}

func TestNoLibrary(t *testing.T) {
	notELF := filepath.Join(t.TempDir(), "libamd_smi.so")
	if err := os.WriteFile(notELF, []byte("not a library at all, but long enough to have a header"), 0o644); err != nil {
		t.Fatal(err)
	}
	wantError(t, ask(t, amdsmi.Request{Do: amdsmi.TellVersion, Library: "/nonexistent/libamd_smi.so"}), amdsmi.NotFound, "there is no /nonexistent/libamd_smi.so")
	wantError(t, ask(t, amdsmi.Request{Do: amdsmi.TellVersion, Library: notELF}), amdsmi.NotLoaded, "cannot load "+notELF)
}

func TestLibrary_OutputIsNoReply(t *testing.T) {
	lib, root := library(t, standin.Latest()), tree(t)
	turn(t, lib, "sys "+root, "noise")
	if reply := ask(t, amdsmi.Request{Do: amdsmi.TellVersion, Library: lib}); reply.Version != "27.1.0" {
		t.Errorf("%+v", reply)
	}
}

// The library of ROCm 6 starts a shell that reloads the driver when it sets a memory mode. The shell
// must not find modprobe.
func TestLibrary_CannotReloadDriver(t *testing.T) {
	lib, root := library(t, standin.Find("rocm-6.1.2")), tree(t)
	turn(t, lib, "sys "+root)
	bin := t.TempDir()
	marker := filepath.Join(bin, "ran")
	script := "#!/bin/sh\necho \"$0 $*\" >>" + marker + "\n"
	for _, name := range []string{"stdbuf", "modprobe", "systemctl"} {
		if err := os.WriteFile(filepath.Join(bin, name), []byte(script), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	reply := ask(t, amdsmi.Request{Do: amdsmi.SetMemory, Library: lib, GPU: first, Mode: "NPS4"}, "PATH="+bin+":/usr/bin:/bin")
	if reply.Error != nil {
		t.Fatalf("%+v", reply.Error)
	}
	if ran, err := os.ReadFile(marker); err == nil {
		t.Errorf("the library ran %s", ran)
	}
}

// If the library aborts, crashes or hangs, dcm-smi prints no reply. Its caller handles that and kills
// it after a timeout.
func TestLibrary_Crash(t *testing.T) {
	for _, knob := range []string{"init-abort", "init-segv", "init-hang", "set-hang"} {
		t.Run(knob, func(t *testing.T) {
			lib, root := library(t, standin.Latest()), tree(t)
			turn(t, lib, "sys "+root, knob)
			ctx, cancel := context.WithTimeout(t.Context(), 2*time.Second)
			defer cancel()
			cmd := exec.CommandContext(ctx, os.Args[0], `{"do":"set-compute","gpu":"0000:05:00.0","mode":"CPX","library":"`+lib+`"}`)
			cmd.Env = append(os.Environ(), runMain+"=1")
			out, err := cmd.Output()
			if err == nil || len(out) > 0 {
				t.Errorf("answer %q, %v", out, err)
			}
			wantUntouched(t, root)
		})
	}
}
