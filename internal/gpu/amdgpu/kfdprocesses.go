package amdgpu

import (
	"errors"
	"io/fs"
	"path/filepath"
	"slices"
	"strconv"

	"golang.org/x/sys/unix"

	"dcm/internal/gpu"
	"dcm/internal/linux/sysfs"
)

// memoryUsers returns the processes in KFD with their memory, by the partition's id
// (kfd_process.c: kfd_procfs_show).
func (k kfd) memoryUsers() (map[string][]gpu.Process, error) {
	pids, err := sysfs.Numbers(k.processes())
	if errors.Is(err, fs.ErrNotExist) {
		err = errors.New("the driver has no KFD")
	}
	if err != nil {
		return nil, err
	}
	slices.Sort(pids)
	out := make(map[string][]gpu.Process)
	for _, pid := range pids {
		if err := k.addMemory(out, pid); err != nil && !errors.Is(err, fs.ErrNotExist) { // it has ended
			return out, err
		}
	}
	return out, nil
}

// addMemory adds the memory of one process by the partition's id. It returns [fs.ErrNotExist]
// if the process has ended.
func (k kfd) addMemory(out map[string][]gpu.Process, pid int) error {
	return addContextMemory(out, pid, filepath.Join(k.processes(), strconv.Itoa(pid)))
}

// addContextMemory adds the memory of a directory of the process. Since Linux 7.0 a process can have
// further contexts, which are the directories context_N (AMDKFD_IOC_CREATE_PROCESS).
func addContextMemory(out map[string][]gpu.Process, pid int, dir string) error {
	names, err := sysfs.Names(dir)
	if err != nil {
		return err
	}
	for _, name := range names {
		if _, is := cutDecimal(name, "context_"); is {
			if err := addContextMemory(out, pid, filepath.Join(dir, name)); err != nil {
				return err
			}
			continue
		}
		id, ok := cutDecimal(name, "vram_")
		if !ok {
			continue
		}
		bytes, err := sysfs.Number(filepath.Join(dir, name), 64)
		if errors.Is(err, unix.ENODEV) { // kernfs has removed the file after it was opened
			err = fs.ErrNotExist
		}
		if err != nil {
			return err
		}
		if bytes > 0 {
			out[id] = addProcess(out[id], gpu.Process{PID: pid, Bytes: bytes})
		}
	}
	return nil
}

// addProcess adds the memory of a process to a list that has it last, if it has it.
func addProcess(list []gpu.Process, p gpu.Process) []gpu.Process {
	if last := len(list) - 1; last >= 0 && list[last].PID == p.PID {
		list[last].Bytes += p.Bytes
		return list
	}
	return append(list, p)
}

// cutDecimal returns the decimal number after the prefix, as text.
func cutDecimal(name, prefix string) (string, bool) {
	if len(name) <= len(prefix) || name[:len(prefix)] != prefix {
		return "", false
	}
	number := name[len(prefix):]
	_, err := strconv.ParseUint(number, 10, 64)
	return number, err == nil
}
