// Package devguard restricts device nodes to the processes below certain cgroups.
//
// systemd's DeviceAllow= lists what a unit may open, but does not prevent other units from opening
// the same device. The guard does: a program at the root of the cgroup tree (bpf(2),
// BPF_PROG_TYPE_CGROUP_DEVICE), which the kernel runs at every open of a device node, and a table
// of pairs of a device and a cgroup. A device in the table can be opened only below the cgroups
// that the table has for it. That includes root's shell and containers. A unit's own device list
// still applies. Program and table are pinned in a bpf file system and outlive the process that
// loaded them. A change of the table takes effect immediately.
//
// The package does not know what the devices are or who reserved them. It does not close files
// that are already open; neither does the kernel or systemd.
//
// The package contains the instructions themselves: about thirty, and fourteen for each level of
// the cgroup tree. For one program that never changes, a loader library would add about ten
// thousand lines to a program that has CAP_BPF.
package devguard
