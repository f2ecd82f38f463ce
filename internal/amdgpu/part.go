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
		cards, err := n.cards()
		nodes, none := n.nodes()
		switch {
		case errors.Is(none, fs.ErrNotExist): // nor are there partitions
			return struct{}{}, err
		case none != nil:
			return struct{}{}, errors.Join(err, none)
		}
		defer nodes.Close()
		var parts []*gpu.Part
		for _, d := range devices {
			for i := range d.Parts {
				parts = append(parts, &d.Parts[i])
			}
		}
		errs := make([]error, len(parts))
		attr.Each(len(parts), func(i int) { errs[i] = detail(nodes, parts[i], cards) })
		return struct{}{}, errors.Join(append(errs, err)...)
	})
	if err != nil {
		return fmt.Errorf("cannot look at the partitions: %w", err)
	}
	return nil
}

func detail(nodes attr.Dir, p *gpu.Part, cards map[int]string) error {
	dir := strconv.Itoa(p.Number)
	id, err := nodes.Read(filepath.Join(dir, "gpu_id"))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	p.ID, p.Card = id, cards[p.Minor]
	p.Bytes, err = bankSizes(nodes, filepath.Join(dir, "mem_banks"))
	return err
}

// cards are DRM's names of the devices that the render nodes are of, by minor. Where a
// device's links lead tells whose it is.
func (n *Node) cards() (map[int]string, error) {
	names, err := attr.Names(n.sys("class/drm"))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	dir, devices := n.sys("class/drm"), make([]string, len(names))
	attr.Each(len(names), func(i int) {
		if _, _, ok := gpu.DRMName(names[i]); !ok {
			return // a connector
		}
		if target, err := os.Readlink(filepath.Join(dir, names[i])); err == nil { // else it is gone meanwhile
			devices[i] = filepath.Dir(target)
		}
	})
	card, render := make(map[string]string), make(map[string]int)
	for i, name := range names {
		switch kind, minor, _ := gpu.DRMName(name); {
		case devices[i] == "":
		case kind == "card":
			card[devices[i]] = name
		default:
			render[devices[i]] = minor
		}
	}
	out := make(map[int]string)
	for device, minor := range render {
		out[minor] = card[device]
	}
	return out, nil
}

// bankSizes is the sum of a KFD node's banks, which are numbered from 0
// (kfd_topology.c: kfd_build_sysfs_node_entry, mem_show).
func bankSizes(nodes attr.Dir, dir string) (uint64, error) {
	var sum uint64
	for bank := 0; ; bank++ {
		text, err := nodes.Read(filepath.Join(dir, strconv.Itoa(bank), "properties"))
		if errors.Is(err, fs.ErrNotExist) {
			return sum, nil
		}
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
}
