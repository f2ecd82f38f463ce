package doctor

import (
	"fmt"
	"strings"

	"dcm/internal/gpu/nvidia"
	"dcm/internal/gpu/partition"
)

// minimumDriver returns the first driver with MIG for a board, "" if it is unknown.
func minimumDriver(board string) string {
	for _, row := range []struct{ prefix, driver string }{
		{"A100", "450.80.02"}, {"A30", "460.73.01"}, {"H100", "525.85.12"}, {"H200", "550.90.07"},
		{"B200", "570.133.20"}, {"GB200", "570.133.20"}, {"B300", "580.82.07"},
		{"RTX-PRO-6000", "575.51.03"}, {"RTX-PRO-5000", "575.57.08"}, {"RTX-PRO-4500", "575.64"},
	} {
		if strings.HasPrefix(board, row.prefix) {
			return row.driver
		}
	}
	return ""
}

func oldNVIDIA(f *facts) (out []problem) {
	for _, g := range f.of(partition.NVIDIA) {
		if least := minimumDriver(g.model); least != "" && older(f.nvidia, least) {
			out = append(out, problem{string(g.address), fmt.Sprintf("driver too old for MIG on %s (found %s, want %s)", g.model, f.nvidia, least)})
		}
	}
	return out
}

// blackwell reports whether the board has a GPU of that generation.
func blackwell(board string) bool {
	return strings.HasPrefix(board, "B200") || strings.HasPrefix(board, "B300") || strings.HasPrefix(board, "GB") || strings.HasPrefix(board, "RTX-PRO")
}

func proprietary(f *facts) (out []problem) {
	for _, g := range f.of(partition.NVIDIA) {
		if f.nvidia != "" && !f.open && blackwell(g.model) {
			out = append(out, problem{string(g.address), g.model + " needs the open kernel modules (found the proprietary ones)"})
		}
	}
	return out
}

func libraryMismatch(f *facts) []problem {
	versions := f.libraries("libnvidia-ml")
	if f.nvidia == "" || len(versions) == 0 {
		return nil
	}
	for _, v := range versions {
		if v == f.nvidia {
			return nil
		}
	}
	return []problem{{"libnvidia-ml", fmt.Sprintf("not the version of the driver (found %s, want %s)", versions[len(versions)-1], f.nvidia)}}
}

// resetting returns the model of a GPU that is reset to switch MIG, "" if there is none.
func (f *facts) resetting() string {
	for _, g := range f.gpus {
		if g.resets {
			return g.model
		}
	}
	return ""
}

// drmModeset finds nothing if a run may unload the module, unless a text console prevents that.
func drmModeset(f *facts) []problem {
	if f.cfg.Reload && !nvidia.HasConsole(f.path("sys")) {
		return nil
	}
	return f.kernelHolder(nvidia.DRMModule, "modeset=1 holds every GPU")
}

func peermem(f *facts) []problem {
	return f.kernelHolder(nvidia.PeermemModule, "the module holds the driver")
}

// kernelHolder finds a module that holds GPUs while one of them is reset to switch MIG. A
// parameter that cannot be read is no finding.
func (f *facts) kernelHolder(module, what string) []problem {
	model := f.resetting()
	if model == "" {
		return nil
	}
	for _, k := range nvidia.KernelHolders(f.path("sys")) {
		if k.Module == module && (k.Certain || module != nvidia.DRMModule) {
			return []problem{{module, what + ": " + model + " cannot be reset to switch MIG"}}
		}
	}
	return nil
}

func noReset(f *facts) (out []problem) {
	for _, g := range f.gpus {
		if g.resets && g.driver == "nvidia" && !f.exists(pciDevices, string(g.address), "reset") {
			out = append(out, problem{string(g.address), "cannot be reset: MIG cannot be switched on " + g.model})
		}
	}
	return out
}

func noCDI(f *facts) []problem {
	const unit = "nvidia-cdi-refresh.service"
	written := f.exists("etc/cdi/nvidia.yaml") || f.exists("run/cdi/nvidia.yaml") || f.exists("var/run/cdi/nvidia.yaml")
	if f.nvidia == "" || written || !f.enabled(unit) && !f.enabled("nvidia-cdi-refresh.path") {
		return nil
	}
	return []problem{{unit, "it has written no CDI file: containers get no GPU"}}
}
