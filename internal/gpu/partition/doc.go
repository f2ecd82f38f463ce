// Package partition is the vocabulary of GPU partitioning and the planner.
//
// It holds the modes, what a GPU can be asked for, the profile an administrator
// selects, and [Plan], which turns "wanted" and "seen" into ordered steps.
// Everything here is pure: it knows no file, no clock, no context, no
// configuration format, no sysfs and no systemd unit.
//
// The facts about modes come from the amdgpu driver (gfx_v9_4_3, amdgpu_gmc,
// amdgpu_xcp) and from AMD's partitioning guides; each table names its source.
package partition
