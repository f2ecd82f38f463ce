// Package amdgpu is the [gpu.Vendor] for AMD's GPUs through the amdgpu driver: inventory,
// mode changes, driver reload, and the processes that have a GPU open.
//
// It uses the kernel's sysfs ABI only and reads back each change. It retries a busy GPU for
// a short time while the driver tears down an ended process. All other retries, undo and the
// order of steps belong to the callers, as do units and profiles.
//
// The files are those of the amdgpu driver (amdgpu_gfx.c, amdgpu_gmc.c, amdgpu_xcp.c,
// kfd_topology.c, kfd_process.c) and of Documentation/ABI/testing/sysfs-bus-pci.
package amdgpu
