// Package devguard restricts device nodes to the processes in certain cgroups.
//
// systemd's DeviceAllow= limits which devices a unit can open. It does not prevent other units from
// opening the same device. The guard does. It is a BPF program at the root of the cgroup tree (bpf(2),
// BPF_PROG_TYPE_CGROUP_DEVICE) with a table of devices and cgroups. The kernel runs it at each open
// of a device node. A device in the table can be opened only by processes in or below its cgroups in
// the table; root's shell and containers are no exception. A unit's own DeviceAllow= still applies.
// Program and table are pinned in a bpf file system, so they outlive the process that loads them. A
// change of the table takes effect immediately.
//
// The package does not know what the devices are or who reserved them. Files that are already open
// stay open.
//
// The package contains the BPF instructions: about thirty, and fourteen for each level of the cgroup
// tree. A loader library would add about ten thousand lines to a program with CAP_BPF.
package devguard
