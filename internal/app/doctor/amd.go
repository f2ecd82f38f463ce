package doctor

import (
	"fmt"
	"path/filepath"
	"slices"
	"strings"

	"dcm/internal/gpu/partition"
	"dcm/internal/linux/sysfs"
	"dcm/internal/sanitize"
)

// oldVBIOS reads the version only where the driver shows it: vbios_version is the part
// number of the board on most kernels.
func oldVBIOS(f *facts) (out []problem) {
	for _, g := range f.of(partition.AMD) {
		version := f.text(pciDevices, string(g.address), "vbios_version")
		if g.model == "MI300X" && len(numbers(version)) >= 4 && older(version, "022.040.003.042") {
			out = append(out, problem{string(g.address), fmt.Sprintf("VBIOS too old (found %s, want 022.040.003.042)", version)})
		}
	}
	return out
}

func oldAMDGPU(f *facts) []problem {
	version := f.text("sys/module/amdgpu/version")
	if len(f.of(partition.AMD)) == 0 || !older(version, "6.12.12") {
		return nil
	}
	return []problem{{"amdgpu", fmt.Sprintf("driver too old (found %s, want 6.12.12)", version)}}
}

func oldKernel(f *facts) []problem {
	if len(f.of(partition.AMD)) == 0 || !older(f.kernel, "5.15") {
		return nil
	}
	return []problem{{"kernel", fmt.Sprintf("too old (found %s, want 5.15)", f.kernel)}}
}

// clearedSince returns the first stable kernel of each series that clears memory of the GPU before it gives it
// to a process of KFD. Other series before 7.1 and kernels of distributions, which count otherwise, are unknown.
func clearedSince() []string { return []string{"6.6.140", "6.12.90", "6.18.32", "7.0.9"} }

// unclearedMemory judges the driver of the kernel alone: that of ROCm has a version of its own.
func unclearedMemory(f *facts) []problem {
	now := numbers(f.kernel)
	if len(f.of(partition.AMD)) == 0 || !f.exists("sys/module/amdgpu") || f.text("sys/module/amdgpu/version") != "" || len(now) < 3 || now[2] == 0 {
		return nil
	}
	for _, first := range clearedSince() {
		if slices.Equal(now[:2], numbers(first)[:2]) && older(f.kernel, first) {
			return []problem{{"kernel", fmt.Sprintf("new memory of a GPU may hold data of the last process (found %s, want %s)", f.kernel, first)}}
		}
	}
	return nil
}

// cachedMode finds the warning of amdgpu_xcp_query_partition_mode, once for each GPU:
// "amdgpu 0000:05:00.0: Cached partition mode 0 not matching with device mode 15".
func cachedMode(f *facts) (out []problem) {
	found := make(map[string]bool)
	for _, line := range f.cfg.Kernel {
		before, modes, is := strings.Cut(line, ": Cached partition mode ")
		cached, device, match := strings.Cut(strings.TrimSpace(modes), " not matching with device mode ")
		if !is || !match {
			continue
		}
		object := "amdgpu"
		if a, err := partition.ParseAddress(before[strings.LastIndexByte(before, ' ')+1:]); err == nil {
			object = string(a)
		}
		if !found[object] {
			found[object] = true
			out = append(out, problem{object, fmt.Sprintf("the kernel log says that the driver has compute mode %s and the GPU %s", sanitize.Text(cached), sanitize.Text(device))})
		}
	}
	return out
}

// libraries returns the versions in the names of a library's files, "25.3.0".
func (f *facts) libraries(name string) (versions []string) {
	for _, dir := range []string{"usr/lib", "usr/lib64", "usr/lib/x86_64-linux-gnu", "usr/lib/aarch64-linux-gnu", "opt/rocm/lib", "opt/rocm-*/lib"} {
		found, _ := filepath.Glob(f.path(dir, name+".so.*")) // the pattern is valid
		for _, file := range found {
			_, version, _ := strings.Cut(filepath.Base(file), ".so.")
			if len(numbers(version)) > 1 {
				versions = append(versions, sanitize.Text(version))
			}
		}
	}
	slices.SortFunc(versions, func(a, b string) int { return slices.Compare(numbers(a), numbers(b)) })
	return versions
}

func oldLibrary(f *facts) []problem {
	versions := f.libraries("libamd_smi")
	if len(f.of(partition.AMD)) == 0 || len(versions) == 0 {
		return nil
	}
	newest := versions[len(versions)-1]
	if !older(newest, "25.3") {
		return nil
	}
	return []problem{{"libamd_smi", fmt.Sprintf("library too old (found %s, want 25.3)", newest)}}
}

// drmLimit is the number of DRM minors of a kind before 6.12 (drm_drv.c).
const drmLimit = 64

// minorsNeeded returns the DRM minors of a kind that the node needs: amdgpu registers eight
// for each GPU, whatever its mode.
func (f *facts) minorsNeeded() int {
	amd := len(f.of(partition.AMD))
	return 8*amd + len(f.gpus) - amd + f.displays()
}

// displays returns the number of other display devices, which have a primary minor.
func (f *facts) displays() (n int) {
	names, _ := sysfs.Names(f.path(pciDevices)) // without the directory there are none
	for _, name := range names {
		isGPU := slices.ContainsFunc(f.gpus, func(g function) bool { return string(g.address) == name })
		if class := f.text(pciDevices, name, "class"); !isGPU && strings.HasPrefix(class, "0x03") {
			n++
		}
	}
	return n
}

func fewMinors(f *facts) []problem {
	needed := f.minorsNeeded()
	if len(f.of(partition.AMD)) == 0 || !older(f.kernel, "6.12") || needed <= drmLimit {
		return nil
	}
	return []problem{{"kernel", fmt.Sprintf("not enough DRM minors (found %d, want %d)", drmLimit, needed)}}
}

func astMinors(f *facts) []problem {
	if fewMinors(f) == nil || !f.exists("sys/module/ast") {
		return nil
	}
	return []problem{{"ast", "the display driver of the management controller takes DRM minors"}}
}

func noDMEM(f *facts) []problem {
	controllers := f.text("sys/fs/cgroup/cgroup.controllers")
	if len(f.of(partition.AMD)) == 0 || controllers == "" || slices.Contains(strings.Fields(controllers), "dmem") {
		return nil
	}
	return []problem{{"kernel", "no dmem controller: memory of shared partitions is not capped"}}
}
