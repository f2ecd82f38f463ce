package amdgpu

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"

	"golang.org/x/sys/unix"

	"dcm/internal/gpu"
	"dcm/internal/gpu/partition"
	"dcm/internal/linux/sysfs"
)

// attach sets [gpu.Holder.Attached] of the processes that have /dev/kfd open, unless the driver's check
// concerns the whole node.
//
// open(2) of /dev/kfd makes the caller a KFD process and attaches it to every KFD node that its
// device cgroup permits, until the end of its address space (kfd_create_process,
// kfd_init_apertures). So an open file without an entry in sysfs is inherited or received. It
// belongs to the KFD process of its opener: one of the same unit, or one that has ended and
// whose entry remains. If there is neither, the GPUs are unknown.
func (n *usageReader) attach(holders []gpu.Holder) error {
	open := func(h gpu.Holder) bool { return slices.Contains(h.Devices, kfdDevice) }
	if !slices.ContainsFunc(holders, open) || n.check.read() == gpu.BusyCheckNode {
		return nil
	}
	listed, err := n.kfd.attachments(n.roots)
	if err != nil {
		return err
	}
	for i := range holders {
		if h := &holders[i]; open(*h) {
			if own, ok := listed[h.PID]; ok {
				h.Attached = own
			} else {
				h.Attached = inherited(*h, holders, listed)
			}
		}
	}
	return nil
}

// inherited returns the GPUs of the KFD processes that a file without an entry may belong to,
// nil if they are unknown.
func inherited(h gpu.Holder, holders []gpu.Holder, listed map[int][]partition.Address) []partition.Address {
	var out []partition.Address
	for pid, gpus := range listed {
		i := slices.IndexFunc(holders, func(other gpu.Holder) bool { return other.PID == pid })
		if i >= 0 && (h.Unit == "" || holders[i].Unit != h.Unit) {
			continue
		}
		if len(gpus) == 0 {
			return nil
		}
		out = append(out, gpus...)
	}
	return sortedAddresses(out)
}

// attachments returns the GPUs that each KFD process is attached to: the driver creates a file
// vram_GPUID for each node (kfd_procfs_add_sysfs_files). The list of a process is nil if its
// GPUs are unknown.
func (k kfd) attachments(r gpu.Roots) (map[int][]partition.Address, error) {
	out := make(map[int][]partition.Address)
	pids, err := sysfs.Numbers(k.processes())
	if errors.Is(err, fs.ErrNotExist) || len(pids) == 0 && err == nil {
		return out, nil
	}
	if err != nil {
		return nil, err
	}
	files := make(map[int][]string)
	for _, pid := range pids {
		names, err := sysfs.Names(filepath.Join(k.processes(), strconv.Itoa(pid)))
		if errors.Is(err, fs.ErrNotExist) || errors.Is(err, unix.ENODEV) {
			continue // it has ended
		}
		if err != nil {
			return nil, err
		}
		files[pid] = names
	}
	owners, err := k.owners(r) // after the files, so that it has each GPU that was attached and is present
	if err != nil {
		return nil, err
	}
	for pid, names := range files {
		out[pid] = owners.attached(names)
	}
	return out, nil
}

// owners are the GPUs of the KFD nodes.
type owners struct {
	byID   map[string]partition.Address // by the node's gpu_id; "" if the GPU is unknown
	hidden bool                         // nodes are missing, such as those that the device cgroup hides
}

// attached returns the GPUs of a KFD process from the names of its files, nil if one is unknown. A
// gpu_id that no node has belonged to a GPU that has left the bus.
func (o owners) attached(names []string) []partition.Address {
	var out []partition.Address
	for _, name := range names {
		id, ok := cutDecimal(name, "vram_")
		if !ok {
			continue
		}
		owner, listed := o.byID[id]
		switch {
		case !listed && !o.hidden:
			owner = gpu.Removed
		case owner == "":
			return nil
		}
		out = append(out, owner)
	}
	return sortedAddresses(out)
}

func (k kfd) owners(r gpu.Roots) (owners, error) {
	out := owners{byID: make(map[string]partition.Address)}
	dir, names, err := sysfs.ListDir(k.topology())
	if errors.Is(err, fs.ErrNotExist) {
		out.hidden = true
		return out, nil
	}
	if err != nil {
		return out, err
	}
	defer dir.Close()
	for _, name := range names {
		id, err := dir.Read(filepath.Join(name, "gpu_id"))
		if err == nil && id == "0" { // a CPU
			continue
		}
		node, wrong := readNode(dir, name)
		if err != nil || wrong != nil || node.id == nodeGone {
			out.hidden = true
			continue
		}
		out.byID[id] = node.owner(r)
	}
	return out, nil
}

// owner returns the address of the GPU that the node is a partition of, "" if it is unknown.
// Drivers that add the number of the partition to the function (see address) show the partition
// files at function 0.
func (n kfdNode) owner(r gpu.Roots) partition.Address {
	a := n.address()
	for _, a := range []partition.Address{a, partition.Address(slot(a) + ".0")} {
		if _, err := os.Lstat(r.AttributePath(a, computeFile)); err == nil {
			return a
		}
	}
	return ""
}

func sortedAddresses(all []partition.Address) []partition.Address {
	slices.SortFunc(all, partition.Address.Compare)
	return slices.Compact(all)
}
