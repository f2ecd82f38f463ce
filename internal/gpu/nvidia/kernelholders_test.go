package nvidia

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"dcm/internal/gpu"
	"dcm/internal/gpu/nvml"
)

// Only nvidia_drm with modeset=1 must be unloaded, and only for a board that is reset.
func TestHoldingModule(t *testing.T) {
	const a = "0000:41:00.0"
	for name, tt := range map[string]struct {
		device, modeset string
		want            bool
	}{
		"A100":            {"0x20b2", "Y", true},
		"without modeset": {"0x20b2", "N", false},
		"H100":            {"0x2330", "Y", false},
	} {
		sys := t.TempDir()
		for path, text := range map[string]string{
			"bus/pci/devices/" + a + "/device":                    tt.device,
			"module/nvidia_drm/parameters/modeset":                tt.modeset,
			"bus/pci/drivers/nvidia/" + a + "/drm/renderD128/dev": "226:128",
		} {
			path = filepath.Join(sys, path)
			if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(path, []byte(text+"\n"), 0o644); err != nil {
				t.Fatal(err)
			}
		}
		m := host{gpu.Roots{Sys: sys}}.holdingModule(a)
		if (m != nil) != tt.want || m != nil && (m.Name != DRMModule || !slices.Contains(m.Nodes, "/dev/dri/renderD128")) {
			t.Errorf("%s: %+v", name, m)
		}
	}
}

// A kernel module holds a GPU without a process that has it open: the error names the module.
func TestAddKernelHolders(t *testing.T) {
	const a100, h100 = "0x20b2", "0x2330"
	type files map[string]string
	drm := func(modeset string) files {
		return files{"nvidia_drm/initstate": "live", "nvidia_drm/parameters/modeset": modeset}
	}
	for _, tt := range []struct {
		name    string
		device  string
		modules files
		op      nvml.Op
		kind    nvml.Kind
		want    string // text of the module; "" if none is named
		hint    string
		certain bool
	}{
		{"with modeset", a100, drm("Y"), nvml.Mode, nvml.InUse, "the kernel module nvidia_drm holds it (modeset=1)", "set nvidia-drm.modeset=0", true},
		{"a board without reset", h100, drm("Y"), nvml.Mode, nvml.InUse, "nvidia_drm may hold it", "set nvidia-drm.modeset=0", false},
		{"an unknown board", "0x7777", drm("Y"), nvml.Mode, nvml.InUse, "nvidia_drm may hold it", "set nvidia-drm.modeset=0", false},
		{"a hidden parameter", a100, files{"nvidia_drm/initstate": "live"}, nvml.Mode, nvml.InUse, "nvidia_drm may hold it", "modprobe -r nvidia_drm", false},
		{"modeset is off", a100, drm("N"), nvml.Mode, nvml.InUse, "", "", false},
		{"no module", a100, nil, nvml.Mode, nvml.InUse, "", "", false},
		{"always loaded", a100, files{"nvidia_modeset/initstate": "live", "nvidia_uvm/initstate": "live"}, nvml.Mode, nvml.InUse, "", "", false},
		{"GPUDirect", a100, files{"nvidia_peermem/initstate": "live"}, nvml.Mode, nvml.InUse, "nvidia_peermem may hold it", "modprobe -r nvidia_peermem", false},
		{"another error", a100, drm("Y"), nvml.Mode, nvml.Lost, "", "", false},
		{"instances", a100, drm("Y"), nvml.Clear, nvml.InUse, "", "", false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			sys := t.TempDir()
			write := func(name, text string) {
				t.Helper()
				file := filepath.Join(sys, name)
				if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
					t.Fatal(err)
				}
				if err := os.WriteFile(file, []byte(text+"\n"), 0o644); err != nil {
					t.Fatal(err)
				}
			}
			write("bus/pci/devices/0000:41:00.0/device", tt.device)
			for name, text := range tt.modules {
				write("module/"+name, text)
			}
			err := host{gpu.Roots{Sys: sys}}.addKernelHolders(&Error{Op: tt.op, GPU: "0000:41:00.0", Kind: tt.kind, Text: "in use"})
			hint, _ := explain(err)
			if tt.want == "" {
				if strings.Contains(err.Error(), "kernel module") || gpu.HeldInKernel(err) {
					t.Errorf("named: %v", err)
				}
				return
			}
			if !strings.Contains(err.Error(), tt.want) || !strings.Contains(hint, tt.hint) || gpu.HeldInKernel(err) != tt.certain {
				t.Errorf("%v; hint %s; certain %t, want %t", err, hint, gpu.HeldInKernel(err), tt.certain)
			}
		})
	}
}
