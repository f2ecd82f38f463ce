// Package guard keeps device nodes for the processes below one cgroup.
//
// systemd's DeviceAllow= says what a unit may open; it cannot say that nobody else
// may. The guard can: one program at the root of the cgroup tree (bpf(2),
// BPF_PROG_TYPE_CGROUP_DEVICE) that the kernel asks at every open of a device
// node, by whomever, and a table, device number → cgroup. A device that is
// in the table opens below that cgroup and nowhere else, root's shell and containers
// included; what else a unit's own list forbids stays forbidden. Program and table
// are pinned in a bpf file system, so they outlive who loaded them, and a change of
// the table takes effect at once.
//
// The package refuses to know what the devices are, who reserved them and why. It
// closes no file that is open already: neither the kernel nor systemd does.
//
// The instructions are written out here: eighteen, four for each level of the cgroup
// tree, and the two ends. A loader library would be some ten thousand lines to audit in a
// program that holds CAP_BPF, for one program that never changes.
package guard
