package doctor

import "dcm/internal/gpu/nvidia"

// Checks returns the table of checks, in the order of the report.
func Checks() []Check {
	return append(append(amdChecks(), nvidiaChecks()...), hostChecks()...)
}

func amdChecks() []Check {
	const requirements = "AMD, Requirements to Partition MI300X GPUs (amdgpu-docs 21616cc, read 2026-11-23)"
	return []Check{
		{"amd-vbios", Warning, "vbios_version of each MI300X", "the VBIOS is older than 022.040.003.042",
			"update the firmware of the board", requirements, oldVBIOS},
		{"amd-driver", Warning, "version of the amdgpu module", "the driver is older than 6.12.12",
			"install a newer amdgpu driver", requirements, oldAMDGPU},
		{"amd-kernel", Warning, "/proc/sys/kernel/osrelease", "the kernel is older than 5.15",
			"boot a newer kernel", requirements, oldKernel},
		{"amd-library", Warning, "libamd_smi in the library directories and /opt/rocm", "the newest libamd_smi is older than 25.3",
			"install a newer amd-smi; dcm itself reads and writes sysfs", requirements, oldLibrary},
		{"amd-memory", Warning, "/proc/sys/kernel/osrelease, version of the amdgpu module", "the kernel gives a process memory of the GPU that may hold data of the last process",
			"boot Linux 7.1 or later, or 6.6.140, 6.12.90, 6.18.32, 7.0.9 or a later one of these series", "drm/amdkfd: Clear VRAM on allocation (ad52d61d8218), stable kernels of 2026-05-17", unclearedMemory},
		{"amd-cached-mode", Warning, "the kernel log of this boot", "the driver and the GPU have different compute modes",
			"save the kernel log, and reboot the host before the next change; device mode 15 is a GPU that does not answer", "amdgpu_xcp_query_partition_mode; ROCm/ROCm issue 4688", cachedMode},
		{"drm-minors", Warning, "/proc/sys/kernel/osrelease, PCI devices", "a kernel before 6.12 has fewer DRM minors than the GPUs and other display devices need",
			"boot kernel 6.12 or later, or keep the driver of the other display device from loading", "drm_drv.c, 071d583e01c8", fewMinors},
		{"ast", Warning, "/sys/module/ast, PCI devices", "the ast driver takes DRM minors that partitions need",
			"blacklist ast, if the console of the management controller is not used", "AMD, Troubleshooting, number 4", astMinors},
		{"dmem", Warning, "/sys/fs/cgroup/cgroup.controllers", "the kernel has no dmem controller: memory limits of shared partitions are not enforced",
			"boot a kernel with CONFIG_CGROUP_DMEM (6.14 or later)", "Documentation/admin-guide/cgroup-v2.rst", noDMEM},
	}
}

func nvidiaChecks() []Check {
	const guide = "NVIDIA Multi-Instance GPU User Guide 620, Deployment Considerations (read 2026-11-23)"
	return []Check{
		{"nvidia-driver", Error, "/proc/driver/nvidia/version", "the driver is older than the first with MIG for the board",
			"install a newer driver", guide, oldNVIDIA},
		{"nvidia-open-modules", Error, "/proc/driver/nvidia/version", "a Blackwell GPU runs with the proprietary kernel modules",
			"install the open kernel modules", "NVIDIA driver README, Open Linux Kernel Modules", proprietary},
		{"nvidia-library", Error, "libnvidia-ml in the library directories, /proc/driver/nvidia/version", "the library and the loaded driver have different versions",
			"reload the driver or reboot; install the same version of both", "NVML_ERROR_LIB_RM_VERSION_MISMATCH", libraryMismatch},
		{"nvidia-drm-modeset", Warning, "/sys/module/nvidia_drm/parameters/modeset", "nvidia_drm uses a GPU that must be reset to switch MIG, and reload-driver is false or a text console uses the GPU",
			nvidia.Remedy(nvidia.DRMModule), "NVIDIA/mig-parted issue 181", drmModeset},
		{"nvidia-peermem", Warning, "/sys/module/nvidia_peermem", "nvidia_peermem holds the driver",
			nvidia.Remedy(nvidia.PeermemModule), "NVIDIA driver README, GPUDirect RDMA", peermem},
		{"mig-reset", Error, "reset of each GPU", "MIG cannot be switched: the GPU needs a reset and the kernel offers none, as in a virtual machine",
			"switch MIG on the host of the virtual machine", "kubernetes-sigs/dra-driver-nvidia-gpu issue 883", noReset},
		{"nvidia-cdi", Warning, "nvidia-cdi-refresh, /etc/cdi, /run/cdi", "nvidia-cdi-refresh is enabled and has written no file",
			"start nvidia-cdi-refresh.service after the driver is loaded", "NVIDIA/nvidia-container-toolkit issue 1982", noCDI},
		{"nvidia-cdi-failed", Warning, "nvidia-cdi-refresh", "nvidia-cdi-refresh has failed",
			"see systemctl status nvidia-cdi-refresh.service; start it after the repair", "NVIDIA Container Toolkit, CDI", failedCDI},
		{"nvidia-cdi-stale", Warning, "/etc/cdi, /run/cdi, UUIDs of the GPUs and MIG devices", "the CDI file of NVIDIA is not of the present GPUs and MIG devices",
			"start nvidia-cdi-refresh.service, or remove the file if no GPU has an instance", "NVIDIA Container Toolkit, CDI", staleCDI},
		{"nvidia-cdi-empty", Warning, "nvidia-cdi-refresh, MIG mode of the GPUs", "nvidia-cdi-refresh is enabled, and there is nothing that it could describe",
			"none is necessary: dcm starts the service again after it has created an instance", "pkg/nvcdi of the NVIDIA Container Toolkit 1.20: GPUs in MIG mode are left out", emptyCDI},
	}
}

func hostChecks() []Check {
	return []Check{
		{"vfio", Warning, "driver link of each GPU", "the GPU is bound to vfio-pci",
			"bind the GPU to its own driver, or leave it to its virtual machine", "", boundToVFIO},
		{"virtual-gpu", Warning, "PCI device id, virtualization mode in NVML", "the GPU is a virtual function or a vGPU: it cannot be divided here",
			"set the modes or MIG on the host of the virtual machine", "NVML, nvmlGpuVirtualizationMode_t; AMD GPU Operator, device ids", virtualGPU},
		{"console", Warning, "/sys/class/graphics", "a console of the kernel is on the GPU",
			"start the kernel with fbcon=map:9, or use the display device of the management controller", "Documentation/fb/fbcon.rst", consoleOnGPU},
		{"display-manager", Warning, "display-manager.service", "a display manager is enabled and is no client",
			"list display-manager.service under [clients] units, or disable it", "", displayManager},
		{"guard", Warning, "/proc/sys/kernel/osrelease, exclusive in the configuration", "the kernel is older than 6.1: it may not enforce exclusive partitions",
			"see 'dcm guard status'; if the kernel does not support the guard, boot kernel 6.1 or later", "bpf_get_current_ancestor_cgroup_id in device programs", noGuard},
		{"lockdown", Warning, "/sys/kernel/security/lockdown, taint of the GPU drivers", "the kernel is locked down and the loaded driver has no signature: after a reload it is not loaded again",
			"sign the module and enrol the key, or avoid changes of the memory mode", "kernel_lockdown(7)", lockedDown},
		{"kubelet-order", Warning, "kubelet.service and its drop-ins, [clients]", "kubelet is enabled and does not start after dcm",
			"list kubelet.service under [clients] units, or add a drop-in with After=dcm-apply.service", "", kubeletOrder},
		{"rival-manager", Error, "enabled units, names of running processes", "another program partitions the GPUs too",
			"stop it: one program may partition the GPUs of a host", "", rivals},
		{"dynamic-rival", Error, "the configuration, enabled units, names of running processes", "another program partitions GPUs that are dynamic: these belong to dcm alone",
			"stop the other program, or remove dynamic = true", "", dynamicRivals},
		{"hami-mig", Error, "/tmp/migconfig.yaml, names of running processes", "HAMi sets MIG too",
			"exclude the host from HAMi's device plugin: one program may partition the GPUs of a host", "Project-HAMi/HAMi, docs/dynamic-mig-support.md", hamiMIG},
		{"unlisted-service", Warning, "open files of processes, [clients]", "a service has a GPU open and is no client",
			"list it under [clients] units, so that it is restarted around a change", "", unlistedServices},
		{"leftover-process", Warning, "open files of processes, /proc/PID/cgroup", "a process has a GPU open and belongs to no unit",
			"end it, or start it in a service", "", leftoverProcesses},
		{"held-memory", Warning, "/run/dcm/held-memory.json", "memory of a GPU is in use, and no process holds it",
			"stop its clients and reload the driver, or reboot; with amdgpu of the 7.1 branch a reload does not help, so install 7.2", "ROCm/rocm-systems issue 8263; ROCm/mori pull request 473", heldMemory},
		{"partition-missing", Warning, "KFD topology, DRM minors", "a GPU has fewer partitions with device nodes than its compute mode has",
			"see what differs with 'dcm support selftest --read'; reload the driver or reboot", "", missingPartitions},
		{"foreign-instance", Warning, "MIG instances, the configuration, leases", "a dynamic GPU has a MIG instance that neither the profile nor a lease has: dcm destroys it",
			"stop the program that created it, or remove dynamic = true: a dynamic GPU belongs to dcm alone", "", foreignInstances},
		{"slurm-devices", Warning, "'scontrol show config', if slurmd runs", "Slurm gives GPUs to jobs without task/cgroup: ConstrainDevices has no effect, and a job can open all partitions",
			"set TaskPlugin=task/cgroup,task/affinity in slurm.conf and ConstrainDevices=yes in cgroup.conf", "cgroup.conf(5) of Slurm 24.11", slurmDevices},
		{"udev-mode", Warning, "/etc/udev/rules.d", "a udev rule gives every user access to GPU devices",
			"remove MODE=\"0666\" from the rule, and add users to the group render", "", udevModes},
	}
}
