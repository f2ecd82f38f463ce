// Package devguard keeps device nodes for the processes below certain cgroups.
//
// systemd's DeviceAllow= says what a unit may open. It cannot say that other units may
// not. The guard can: one program at the root of the cgroup tree (bpf(2),
// BPF_PROG_TYPE_CGROUP_DEVICE) that the kernel runs at every open of a device
// node, and a table of pairs of a device and a cgroup. A device that is in the table opens
// below the cgroups that the table has for it, and nowhere else, root's shell and containers
// included; what else a unit's own list forbids stays forbidden. Program and table
// are pinned in a bpf file system, so they outlive the process that loaded them. A change of
// the table takes effect immediately.
//
// The package does not know what the devices are, and who reserved them. It
// closes no file that is open already: neither the kernel nor systemd does.
//
// The instructions are written out here: some thirty, and fourteen for each level of the
// cgroup tree. A loader library would be some ten thousand lines to audit in a
// program that holds CAP_BPF, for one program that never changes.
package devguard
