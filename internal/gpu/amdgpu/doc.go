// Package amdgpu is what the amdgpu driver shows of a node's GPUs and lets be
// changed: the inventory, one mode change at a time, the driver's reload, and
// the processes that have a GPU open. To the node ([gpu.Node]) it is one vendor.
//
// It speaks the kernel's sysfs ABI alone. Each change is read back. It waits out
// the moment in which the driver still tears a process down, and no longer: when
// to try again, what to undo and in which order to change things is its callers'
// to know, as are units and profiles.
//
// The files are those of the amdgpu driver (amdgpu_gfx.c, amdgpu_gmc.c,
// amdgpu_xcp.c, kfd_topology.c, kfd_process.c) and of
// Documentation/ABI/testing/sysfs-bus-pci.
package amdgpu
