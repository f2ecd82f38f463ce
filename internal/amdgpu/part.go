package amdgpu

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"dcm/internal/attr"
	"dcm/internal/gpu"
)

func (k kfdNode) part(index int) gpu.Part {
	p := gpu.Part{Index: index, Minor: int(k.minor), Number: k.id}
	if k.perCU > 0 {
		p.CUs = int(k.simds / k.perCU)
	}
	return p
}

// Detail adds to the partitions what takes a look at several files for each. What
// the device cgroup forbids to look at stays zero, and is told.
func (n *Node) Detail(ctx context.Context, devices []*gpu.Device) error {
	_, err := attr.Within(ctx, func() (struct{}, error) {
		var errs []error
		for _, d := range devices {
			for i := range d.Parts {
				errs = append(errs, n.detail(&d.Parts[i]))
			}
		}
		return struct{}{}, errors.Join(errs...)
	})
	if err != nil {
		return fmt.Errorf("cannot look at the partitions: %w", err)
	}
	return nil
}

func (n *Node) detail(p *gpu.Part) error {
	dir := n.sys("class/kfd/kfd/topology/nodes", strconv.Itoa(p.Number))
	id, err := attr.Optional(filepath.Join(dir, "gpu_id"))
	if err != nil {
		return err
	}
	p.ID = id
	if p.Bytes, err = bankSizes(filepath.Join(dir, "mem_banks")); err != nil {
		return err
	}
	entries, err := os.ReadDir(n.sys("class/drm", "renderD"+strconv.Itoa(p.Minor), "device/drm"))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	for _, e := range entries {
		if kind, _, ok := gpu.DRMName(e.Name()); ok && kind == "card" {
			p.Card = e.Name()
		}
	}
	return nil
}

// bankSizes is the sum of a KFD node's banks (kfd_topology.c: mem_show).
func bankSizes(dir string) (uint64, error) {
	banks, err := numbers(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return 0, nil
	}
	var sum uint64
	for _, bank := range banks {
		text, err := attr.Optional(filepath.Join(dir, strconv.Itoa(bank), "properties"))
		if err != nil {
			return 0, err
		}
		for line := range strings.Lines(text) {
			if value, ok := strings.CutPrefix(strings.TrimSpace(line), "size_in_bytes "); ok {
				size, err := strconv.ParseUint(value, 10, 64)
				if err != nil {
					return 0, fmt.Errorf("%s/%d holds the size %q, not a number", dir, bank, value)
				}
				sum += size
			}
		}
	}
	return sum, err
}
