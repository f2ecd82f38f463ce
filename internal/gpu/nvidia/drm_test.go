package nvidia

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"dcm/internal/gpu"
	"dcm/internal/gpu/nvml"
)

// nvidia_drm holds GPUs from within the kernel, where no process shows it.
func TestInUse_NamesTheModuleForDisplays(t *testing.T) {
	for _, tt := range []struct {
		name    string
		modeset string // "" if the module is not loaded
		kind    nvml.Kind
		named   bool
	}{
		{"with modeset", "Y", nvml.InUse, true},
		{"an older driver, whose parameter is hidden", "-", nvml.InUse, true},
		{"without modeset", "N", nvml.InUse, false},
		{"not loaded", "", nvml.InUse, false},
		{"another error", "Y", nvml.Lost, false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			sys := t.TempDir()
			module := filepath.Join(sys, "module/nvidia_drm")
			write := func(name, text string) {
				t.Helper()
				if err := os.MkdirAll(filepath.Dir(filepath.Join(module, name)), 0o755); err != nil {
					t.Fatal(err)
				}
				if err := os.WriteFile(filepath.Join(module, name), []byte(text+"\n"), 0o644); err != nil {
					t.Fatal(err)
				}
			}
			if tt.modeset != "" {
				write("initstate", "live")
			}
			if len(tt.modeset) == 1 && tt.modeset != "-" {
				write("parameters/modeset", tt.modeset)
			}
			n := host{gpu.Roots{Sys: sys}}
			err := n.addKernelHolder(&Error{Op: nvml.Mode, GPU: "0000:41:00.0", Kind: tt.kind, Text: "in use"})
			hint, _ := explain(err)
			if got := strings.Contains(err.Error(), "nvidia_drm") && strings.Contains(hint, "modprobe -r nvidia_drm"); got != tt.named {
				t.Errorf("named: %t, want %t: %v; %s", got, tt.named, err, hint)
			}
		})
	}
}
