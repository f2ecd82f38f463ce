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
)

// Part is one active partition of a GPU: a node of the KFD topology.
type Part struct {
	Index int // in the GPU, by the minor numbers
	Minor int // of the render node
	CUs   int // compute units; 0 where not known

	// From [Node.Detail]; zero before.
	Card  string // DRM's name, "card9"; not stable
	KFD   string // gpu_id
	Bytes uint64 // of memory

	Node int // KFD's number of it
}

// RenderNode is the device node's path.
func (p Part) RenderNode() string { return fmt.Sprintf("/dev/dri/renderD%d", p.Minor) }

func (k kfdNode) part(index int) Part {
	p := Part{Index: index, Minor: int(k.minor), Node: k.id}
	if k.perCU > 0 {
		p.CUs = int(k.simds / k.perCU)
	}
	return p
}

// Detail adds to the partitions what takes a look at several files for each. What
// the device cgroup forbids to look at stays zero, and is told.
func (n *Node) Detail(ctx context.Context, devices []Device) error {
	_, err := within(ctx, func() (struct{}, error) {
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

func (n *Node) detail(p *Part) error {
	dir := n.sys("class/kfd/kfd/topology/nodes", strconv.Itoa(p.Node))
	id, err := readOptional(filepath.Join(dir, "gpu_id"))
	if err != nil {
		return err
	}
	p.KFD = id
	if p.Bytes, err = bankSizes(filepath.Join(dir, "mem_banks")); err != nil {
		return err
	}
	entries, err := os.ReadDir(n.sys("class/drm", "renderD"+strconv.Itoa(p.Minor), "device/drm"))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	for _, e := range entries {
		if m := drmName.FindStringSubmatch(e.Name()); m != nil && m[1] == "card" {
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
		text, err := readOptional(filepath.Join(dir, strconv.Itoa(bank), "properties"))
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
