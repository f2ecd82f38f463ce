// Package dmem limits the device memory of a cgroup, by the kernel's dmem controller
// (cgroup-v2.rst, DMEM; since 6.14, for drivers that support it).
//
// systemd does not support the controller and does not change its files. The caller decides which
// cgroups get which limits.
package dmem

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"dcm/internal/gpu/partition"
	"dcm/internal/sanitize"
)

// Tree is a mounted cgroup2.
type Tree struct {
	Root string // "/sys/fs/cgroup"

	writeFile func(path, text string) error // nil: [write]
}

// BusyError is returned if a cgroup uses more memory than its new limit, and the kernel cannot reclaim it: a write to
// dmem.max then fails with EBUSY (patches of March and April 2026). A later attempt can succeed.
type BusyError struct{ Err error }

func (e *BusyError) Error() string {
	return e.Err.Error() + " (it uses more memory now; the limit is set again at the next start of dcm-guard.service)"
}
func (e *BusyError) Unwrap() error { return e.Err }

// UnsupportedError is returned if the kernel or the GPU's driver does not support memory limits.
type UnsupportedError struct{ Err error }

func (e *UnsupportedError) Error() string { return e.Err.Error() }
func (e *UnsupportedError) Unwrap() error { return e.Err }

// Cap limits a cgroup, given by its path from the root, to these bytes of each GPU, and reads
// the limits back. The limits of other GPUs do not change.
func (t Tree) Cap(cgroup string, caps map[partition.Address]uint64) error {
	regions, err := t.regions()
	if err != nil {
		return err
	}
	var lines []string
	for gpu, bytes := range caps {
		if len(regions[gpu]) == 0 {
			return uncounted(gpu)
		}
		for _, region := range regions[gpu] {
			lines = append(lines, fmt.Sprintf("%s %d\n", region, bytes))
		}
	}
	if err := t.enable(cgroup); err != nil {
		return err
	}
	var busy error
	for _, line := range lines { // a write of several lines is not atomic
		err := t.write(filepath.Join(t.Root, cgroup, "dmem.max"), line)
		if errors.Is(err, unix.EBUSY) {
			busy = err // the limits of the other regions are set anyway
			continue
		}
		if err != nil {
			return fmt.Errorf("cannot limit the memory of GPUs for %s: %w", cgroup, err)
		}
	}
	now, err := t.Capped(cgroup)
	if err != nil {
		return err
	}
	for gpu, bytes := range caps {
		if got, ok := now[gpu]; !ok || got > bytes {
			if busy != nil {
				return &BusyError{fmt.Errorf("cannot limit the memory of GPUs for %s: %w", cgroup, busy)}
			}
			return fmt.Errorf("cannot limit the memory of GPUs for %s: the kernel shows %d for %s, and not %d", cgroup, got, gpu, bytes)
		}
	}
	return nil
}

// Probe returns why the memory of these GPUs cannot be limited, nil if it can.
func (t Tree) Probe(gpus []partition.Address) error {
	regions, err := t.regions()
	if err != nil {
		return err
	}
	for _, gpu := range gpus {
		if len(regions[gpu]) == 0 {
			return uncounted(gpu)
		}
	}
	return nil
}

func uncounted(gpu partition.Address) error {
	return &UnsupportedError{fmt.Errorf("the driver of %s does not count its memory for cgroups", gpu)}
}

// Capped returns the limits of a cgroup by GPU, in bytes, without GPUs that have no limit.
func (t Tree) Capped(cgroup string) (map[partition.Address]uint64, error) {
	list, err := t.read(filepath.Join(cgroup, "dmem.max"))
	if err != nil {
		return nil, err
	}
	out := make(map[partition.Address]uint64)
	for region, value := range list {
		gpu, ok := gpuOf(region)
		bytes, err := strconv.ParseUint(value, 10, 64)
		if ok && err == nil { // otherwise it is "max", or not a GPU's
			if had, known := out[gpu]; !known || bytes > had {
				out[gpu] = bytes
			}
		}
	}
	return out, nil
}

// regions returns the names of the GPUs' own memory regions.
func (t Tree) regions() (map[partition.Address][]string, error) {
	list, err := t.read("dmem.capacity")
	if errors.Is(err, fs.ErrNotExist) {
		return nil, &UnsupportedError{errors.New("this kernel has no dmem controller (it came with 6.14)")}
	}
	if err != nil {
		return nil, err
	}
	out := make(map[partition.Address][]string)
	for region := range list {
		if gpu, ok := gpuOf(region); ok {
			out[gpu] = append(out[gpu], region)
		}
	}
	return out, nil
}

// gpuOf returns the GPU of a memory region, named as the drivers do: "drm/0000:05:00.0/vram"
// (amdgpu), "drm/0000:05:00.0/vram0" (xe).
func gpuOf(region string) (partition.Address, bool) {
	rest, ok := strings.CutPrefix(region, "drm/")
	gpu, kind, _ := strings.Cut(rest, "/")
	number, vram := strings.CutPrefix(kind, "vram")
	if !ok || !vram || strings.Trim(number, "0123456789") != "" {
		return "", false
	}
	a, err := partition.ParseAddress(gpu)
	return a, err == nil && gpu == strings.ToLower(gpu)
}

// read parses a nested-keyed file, with lines such as "drm/0000:05:00.0/vram 1024".
func (t Tree) read(file string) (map[string]string, error) {
	text, err := os.ReadFile(filepath.Join(t.Root, file))
	if err != nil {
		return nil, fmt.Errorf("cannot read the limits on the memory of GPUs: %w", sanitize.Error(err))
	}
	out := make(map[string]string)
	for line := range strings.Lines(sanitize.Lines(string(text))) {
		if fields := strings.Fields(line); len(fields) == 2 {
			out[fields[0]] = fields[1]
		}
	}
	return out, nil
}

// enable enables the controller in a cgroup, and for that in all its ancestors (cgroup-v2.rst,
// "Top-down Constraint").
func (t Tree) enable(cgroup string) error {
	if _, err := os.Stat(filepath.Join(t.Root, cgroup, "dmem.max")); err == nil {
		return nil
	}
	path := strings.Split(strings.Trim(filepath.Clean(cgroup), "/"), "/")
	for i := range path {
		file := filepath.Join(t.Root, filepath.Join(path[:i]...), "cgroup.subtree_control")
		if err := t.write(file, "+dmem"); err != nil {
			return &UnsupportedError{fmt.Errorf("cannot enable the dmem controller in %s: %w", cgroup, err)}
		}
	}
	return nil
}

func (t Tree) write(path, text string) error {
	if t.writeFile != nil {
		return t.writeFile(path, text)
	}
	return write(path, text)
}

func write(path, text string) error {
	f, err := os.OpenFile(path, os.O_WRONLY, 0)
	if err != nil {
		return err
	}
	_, err = f.WriteString(text)
	return errors.Join(err, f.Close())
}
