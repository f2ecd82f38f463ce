// Package partition is the vocabulary of GPU partitioning, and the planner.
//
// It holds the modes, the geometries, the profile that an administrator selects, and [Plan],
// which turns wanted and current state into ordered steps. It is pure: it knows no file,
// clock, context, configuration format, sysfs or systemd unit.
//
// The facts about modes come from the amdgpu driver (gfx_v9_4_3, amdgpu_gmc, amdgpu_xcp) and
// from AMD's partitioning guides. Each table names its source.
package partition
