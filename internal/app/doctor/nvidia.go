package doctor

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"dcm/internal/gpu/nvidia"
	"dcm/internal/gpu/partition"
	"dcm/internal/linux/cdi"
	"dcm/internal/sanitize"
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

// refreshes reports whether NVIDIA's service describes the GPUs to container engines.
func (f *facts) refreshes() bool {
	return f.nvidia != "" && (f.enabled(cdi.NVIDIAUnit) || f.enabled("nvidia-cdi-refresh.path"))
}

// cdiFiles returns the files that NVIDIA's service writes, with the path without the root directory.
func (f *facts) cdiFiles() (out []string) {
	for _, dir := range cdi.Directories() {
		for _, name := range []string{"nvidia.yaml", "nvidia.json"} {
			if f.exists(dir, name) {
				out = append(out, filepath.Join("/", dir, name))
			}
		}
	}
	return out
}

func noCDI(f *facts) []problem {
	if !f.refreshes() || len(f.cdiFiles()) > 0 || f.cfg.CDI.Failed || f.cfg.CDI.Empty {
		return nil
	}
	return []problem{{cdi.NVIDIAUnit, "it has written no CDI file: containers get no GPU"}}
}

// failedCDI finds nothing if the service fails because it has nothing to describe.
func failedCDI(f *facts) []problem {
	switch {
	case !f.cfg.CDI.Failed || f.cfg.CDI.Empty:
		return nil
	case len(f.cdiFiles()) == 0:
		return []problem{{cdi.NVIDIAUnit, "it has failed, and there is no CDI file: containers get no GPU"}}
	}
	return []problem{{cdi.NVIDIAUnit, "it has failed: " + strings.Join(f.cdiFiles(), ", ") + " may be of an earlier state"}}
}

func emptyCDI(f *facts) []problem {
	if !f.refreshes() || !f.cfg.CDI.Empty || len(f.cdiFiles()) > 0 {
		return nil
	}
	return []problem{{cdi.NVIDIAUnit, "it has written no CDI file: all GPUs are in MIG mode and none has an instance"}}
}

// uuidInCDI is the name of a GPU or MIG device. A file with indices only has none.
var uuidInCDI = regexp.MustCompile(`\b(?:GPU|MIG)-[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}\b`)

// staleCDI compares the names in NVIDIA's file with the UUIDs. A GPU in MIG mode is not in the file.
func staleCDI(f *facts) (out []problem) {
	for _, file := range f.cdiFiles() {
		text, err := os.ReadFile(f.path(file))
		listed := uuidInCDI.FindAllString(string(text), -1)
		if err != nil || len(listed) == 0 {
			continue
		}
		known := slices.Concat(f.cfg.CDI.UUIDs, f.cfg.CDI.GPUs)
		lacks := slices.DeleteFunc(slices.Clone(f.cfg.CDI.UUIDs), func(uuid string) bool { return slices.Contains(listed, uuid) })
		gone := slices.DeleteFunc(slices.Compact(slices.Sorted(slices.Values(listed))), func(uuid string) bool { return slices.Contains(known, uuid) })
		switch {
		case len(lacks) > 0:
			out = append(out, problem{file, fmt.Sprintf("it lacks %s (%d of %d GPUs and MIG devices)", sanitize.Text(lacks[0]), len(lacks), len(f.cfg.CDI.UUIDs))})
		case len(gone) > 0 && len(known) > 0:
			out = append(out, problem{file, "it lists " + gone[0] + ", which does not exist"})
		}
	}
	return out
}
