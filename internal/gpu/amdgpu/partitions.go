package amdgpu

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"path"
	"strconv"
	"strings"

	"dcm/internal/gpu"
	"dcm/internal/gpu/partition"
	"dcm/internal/linux/sysfs"
)

func (k kfdNode) toPart(index int) gpu.Part {
	p := gpu.Part{Index: index, Minor: int(k.minor), XCC: int(k.xcc), UUID: k.uuid(), DriverID: k.id, Banks: int(k.banks)}
	if k.perCU > 0 {
		p.CUs = int(k.simds / k.perCU)
	}
	return p
}

// uuid returns the UUID that HIP and rocminfo show for the node: "GPU-" and unique_id in
// hexadecimal (ROCr, HSA_AMD_AGENT_INFO_UUID). Without an id they show none.
func (k kfdNode) uuid() string {
	id, err := strconv.ParseUint(k.unique, 10, 64)
	if err != nil || id == 0 {
		return ""
	}
	return fmt.Sprintf("GPU-%016x", id)
}

// detailReader reads the details of partitions from DRM and KFD.
type detailReader struct {
	roots gpu.Roots
	kfd   kfd
}

// read is the ReadDetails of [gpu.Vendor].
func (n *detailReader) read(ctx context.Context, devices []*gpu.Device) error {
	_, err := sysfs.Within(ctx, func() (struct{}, error) { return struct{}{}, n.readAll(devices) })
	if err != nil {
		return fmt.Errorf("cannot read the partitions: %w", err)
	}
	return nil
}

func (n *detailReader) readAll(devices []*gpu.Device) error {
	var parts []*gpu.Part
	for _, d := range devices {
		// It includes what the driver reserves. An APU has none of its own, or only a part.
		d.Bytes, _ = sysfs.Number(n.roots.AttributePath(d.Address, "mem_info_vram_total"), 64)
		for i := range d.Parts {
			parts = append(parts, &d.Parts[i])
		}
	}
	cards, err := n.cardsByRenderMinor()
	for _, p := range parts {
		p.Card = cards[p.Minor]
	}
	err = errors.Join(err, n.readMemory(parts))
	for _, d := range devices {
		divideDomains(d)
	}
	return err
}

// divideDomains sets each partition's size to its equal share of its memory domain if KFD shows the
// whole domain for each. The partitions together then have the GPU's memory. The driver computes the
// size with the allocation that is set when KFD adds the partition (amdgpu_amdkfd_xcp_memory_size):
// it is capping then, but another driver may show the domain. For an APU nothing shows which size it
// is. No driver that shows the domain was seen on hardware.
func divideDomains(d *gpu.Device) {
	domains := d.Memory.Domains()
	if d.Allocation != partition.All || domains == 0 || len(d.Parts) <= domains {
		return
	}
	var sum, most uint64
	for _, p := range d.Parts {
		sum, most = sum+p.Bytes, max(most, p.Bytes)
	}
	if most > d.Bytes || sum <= d.Bytes+d.Bytes/64 {
		return
	}
	for i := range d.Parts {
		d.Parts[i].Bytes /= uint64(len(d.Parts) / domains)
	}
}

// readMemory reads memory sizes and ids from the KFD nodes.
func (n *detailReader) readMemory(parts []*gpu.Part) error {
	nodes, err := sysfs.OpenDir(n.kfd.topology())
	if errors.Is(err, fs.ErrNotExist) { // without KFD there are no partitions
		return nil
	}
	if err != nil {
		return err
	}
	defer nodes.Close()
	errs := make([]error, len(parts))
	sysfs.Each(len(parts), func(i int) { errs[i] = readPartMemory(nodes, parts[i]) })
	return errors.Join(errs...)
}

func readPartMemory(nodes sysfs.Dir, p *gpu.Part) error {
	dir := strconv.Itoa(p.DriverID)
	id, err := nodes.Read(dir + "/gpu_id")
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	p.ID = id
	p.Bytes, err = bankSizes(nodes, dir+"/mem_banks", p.Banks)
	return err
}

// cardsByRenderMinor returns the DRM card names by minor of the render node. Card and render
// node belong together if their links lead to the same device.
func (n *detailReader) cardsByRenderMinor() (map[int]string, error) {
	dir, names, err := sysfs.ListDir(n.roots.SysPath("class/drm"))
	if errors.Is(err, fs.ErrNotExist) {
		return make(map[int]string), nil
	}
	if err != nil {
		return nil, err
	}
	defer dir.Close()
	devices := make([]string, len(names))
	sysfs.Each(len(names), func(i int) {
		if _, _, ok := gpu.DRMName(names[i]); !ok {
			return // a connector
		}
		target, err := dir.Target(names[i])
		if err == nil && target != "" { // otherwise it was removed
			devices[i] = path.Dir(target)
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

// bankSizes returns the sum of the memory banks of a KFD node in bytes. Banks are numbered
// from 0 (kfd_topology.c: kfd_build_sysfs_node_entry, mem_show). banks is their number, 0 if
// unknown.
func bankSizes(nodes sysfs.Dir, dir string, banks int) (uint64, error) {
	var sum uint64
	for bank := 0; banks == 0 || bank < banks; bank++ {
		text, err := nodes.Read(dir + "/" + strconv.Itoa(bank) + "/properties")
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
	return sum, nil
}
