package doctor

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"dcm/internal/gpu/partition"
	"dcm/internal/linux/sysfs"
	"dcm/internal/sanitize"
)

func virtualGPU(f *facts) (out []problem) {
	for _, address := range f.cfg.Guests {
		out = append(out, problem{address, "it is a virtual GPU: only its host can set its modes or MIG"})
	}
	return out
}

func slurmDevices(f *facts) []problem {
	if f.cfg.Slurm == "" {
		return nil
	}
	return []problem{{"slurm.conf", fmt.Sprintf("ConstrainDevices has no effect (found TaskPlugin=%s, want task/cgroup)", f.cfg.Slurm)}}
}

func boundToVFIO(f *facts) (out []problem) {
	for _, g := range f.gpus {
		if g.driver == "vfio-pci" {
			out = append(out, problem{string(g.address), g.model + " is bound to vfio-pci"})
		}
	}
	return out
}

func consoleOnGPU(f *facts) (out []problem) {
	names, _ := sysfs.Names(f.path("sys/class/graphics")) // without the directory there are none
	slices.Sort(names)
	for _, name := range names {
		device, _ := sysfs.Link(f.path("sys/class/graphics", name, "device"))
		for _, g := range f.gpus {
			if string(g.address) == device {
				out = append(out, problem{string(g.address), fmt.Sprintf("a console is on it (%s)", sanitize.Text(name))})
			}
		}
	}
	return out
}

func displayManager(f *facts) []problem {
	const unit = "display-manager.service"
	if len(f.gpus) == 0 || slices.Contains(f.cfg.Clients, unit) || !f.exists("etc/systemd/system", unit) {
		return nil
	}
	return []problem{{unit, "it is enabled and is no client: its greeter may have a GPU open"}}
}

func noGuard(f *facts) []problem {
	if !f.cfg.Exclusive || !older(f.kernel, "6.1") {
		return nil
	}
	return []problem{{"kernel", fmt.Sprintf("it may not enforce exclusive partitions (found %s, want 6.1)", f.kernel)}}
}

func lockedDown(f *facts) (out []problem) {
	mode := f.text("sys/kernel/security/lockdown")
	if mode == "" || strings.Contains(mode, "[none]") {
		return nil
	}
	for _, driver := range []struct {
		vendor partition.Vendor
		module string
	}{{partition.AMD, "amdgpu"}, {partition.NVIDIA, "nvidia"}} {
		if len(f.of(driver.vendor)) > 0 && strings.Contains(f.text("sys/module", driver.module, "taint"), "E") {
			out = append(out, problem{driver.module, "the module has no signature, and the kernel is locked down"})
		}
	}
	return out
}

func kubeletOrder(f *facts) []problem {
	const unit = "kubelet.service"
	if len(f.gpus) == 0 || !f.enabled(unit) || slices.Contains(f.cfg.Clients, unit) || f.ordered(unit) {
		return nil
	}
	return []problem{{unit, "it does not start after dcm-apply.service: at boot it counts the GPUs before they are partitioned"}}
}

// ordered reports whether a drop-in of the unit orders it after dcm-apply.service.
func (f *facts) ordered(unit string) bool {
	files, _ := filepath.Glob(f.path("*", "systemd", "system", unit+".d", "*.conf")) // the pattern is valid
	generated, _ := filepath.Glob(f.path("run", "systemd", "generator*", unit+".d", "*.conf"))
	return slices.ContainsFunc(append(files, generated...), func(file string) bool {
		text, err := os.ReadFile(file)
		return err == nil && strings.Contains(string(text), "dcm-apply.service")
	})
}

// rivals finds managers by their unit, and those in containers by the name of their
// process, which the kernel cuts to 15 bytes.
func rivals(f *facts) (out []problem) {
	if len(f.gpus) == 0 {
		return nil
	}
	const unit = "nvidia-mig-manager.service"
	if f.enabled(unit) {
		out = append(out, problem{unit, "it is enabled and sets MIG too"})
	}
	pids, _ := sysfs.Numbers(f.path("proc")) // without the directory there are none
	for _, pid := range pids {
		name := f.text("proc", strconv.Itoa(pid), "comm")
		if name == "device-config-m" || name == "nvidia-mig-mana" {
			out = append(out, problem{fmt.Sprintf("process %d", pid), name + " partitions the GPUs too"})
		}
	}
	return out
}

// dynamicRivals names the dynamic groups on a host with another manager.
func dynamicRivals(f *facts) (out []problem) {
	others := append(rivals(f), hamiMIG(f)...)
	for _, place := range f.cfg.Dynamic {
		for _, p := range others {
			out = append(out, problem{place, fmt.Sprintf("a dynamic GPU belongs to dcm alone (found %s: %s)", p.object, p.text)})
		}
	}
	return out
}

// hamiMIG finds HAMi with dynamic MIG. Its plugin has the host's /tmp, and writes the geometry
// there that it gives to its own nvidia-mig-parted.
func hamiMIG(f *facts) []problem {
	if len(f.of(partition.NVIDIA)) == 0 || !f.exists("tmp/migconfig.yaml") {
		return nil
	}
	pids, _ := sysfs.Numbers(f.path("proc")) // without the directory there are none
	for _, pid := range pids {
		if f.text("proc", strconv.Itoa(pid), "comm") == "vGPUmonitor" {
			return []problem{{"HAMi", fmt.Sprintf("its device plugin sets MIG too (process %d, /tmp/migconfig.yaml)", pid)}}
		}
	}
	return nil
}

func unlistedServices(f *facts) (out []problem) {
	then := "a change would be refused"
	if f.cfg.Included {
		then = "it would become a client until the next boot"
	}
	for _, unit := range f.cfg.Services {
		out = append(out, problem{unit, "it has a GPU open and is not listed under [clients]: " + then})
	}
	return out
}

func leftoverProcesses(f *facts) (out []problem) {
	for _, process := range f.cfg.Processes {
		out = append(out, problem{process, "it has a GPU open and belongs to no unit: a change would be refused"})
	}
	return out
}

func heldMemory(f *facts) (out []problem) {
	for _, held := range f.cfg.Held {
		out = append(out, problem{held.GPU, held.Text + " of memory in use, and no process holds it"})
	}
	return out
}

func missingPartitions(f *facts) (out []problem) {
	for _, few := range f.cfg.Lacking {
		out = append(out, problem{few.GPU, "too few partitions with a device node of their own (" + few.Text + ")"})
	}
	return out
}

func foreignInstances(f *facts) (out []problem) {
	for _, one := range f.cfg.Foreign {
		out = append(out, problem{one.GPU, one.Text + ": neither the profile nor a lease has this instance: dcm destroys it"})
	}
	return out
}

func udevModes(f *facts) (out []problem) {
	files, _ := filepath.Glob(f.path("etc/udev/rules.d", "*.rules")) // the pattern is valid
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil || len(f.gpus) == 0 {
			continue
		}
		for i, line := range strings.Split(string(text), "\n") {
			if opensGPU(line) {
				name := strings.TrimPrefix(file, strings.TrimSuffix(f.root, "/"))
				out = append(out, problem{sanitize.Text(name), fmt.Sprintf("line %d gives every user access to GPU devices", i+1)})
			}
		}
	}
	return out
}

func opensGPU(line string) bool {
	rule := strings.TrimSpace(line)
	device := strings.Contains(rule, "kfd") || strings.Contains(rule, "renderD") || strings.Contains(rule, "nvidia")
	return device && !strings.HasPrefix(rule, "#") && strings.Contains(rule, `"0666"`)
}
