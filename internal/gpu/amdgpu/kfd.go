package amdgpu

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"dcm/internal/gpu"
	"dcm/internal/gpu/partition"
	"dcm/internal/linux/sysfs"
	"dcm/internal/sorting"
)

// kfdNode is a node of the KFD topology: an active partition of a GPU, or a CPU. The source
// of the properties is node_show in kfd_topology.c.
type kfdNode struct {
	id       int
	domain   uint32
	location uint32 // bus, device, function, and number of the partition; see address
	minor    uint32 // minor of the DRM render node; 0 for a CPU
	xcc      uint32 // XCCs of this partition
	simds    uint32 // SIMDs of this partition
	perCU    uint32 // SIMDs per compute unit
	hive     uint64
	unique   string // id of the partition or of the GPU, depending on the driver
	banks    uint32 // number of memory banks

	ambiguous bool // another node has the same minor, so that the render node may be that of either
}

// parseProperties parses "name value" lines. It ignores unknown properties.
func parseProperties(text string) (kfdNode, error) {
	var n kfdNode
	for line := ""; text != ""; {
		line, text, _ = strings.Cut(text, "\n")
		name, value, _ := strings.Cut(strings.TrimSpace(line), " ")
		var err error
		switch name {
		case "domain":
			n.domain, err = parse32(value)
		case "location_id":
			n.location, err = parse32(value)
		case "drm_render_minor":
			n.minor, err = renderMinor(value)
		case "num_xcc":
			n.xcc, err = parse32(value)
		case "simd_count":
			n.simds, err = parse32(value)
		case "simd_per_cu":
			n.perCU, err = parse32(value)
		case "hive_id":
			n.hive, err = strconv.ParseUint(value, 10, 64)
		case "unique_id":
			n.unique = value
		case "mem_banks_count":
			n.banks, err = parse32(value)
		}
		if err != nil {
			return kfdNode{}, fmt.Errorf("property %s is %q, not a number", name, value)
		}
	}
	return n, nil
}

func parse32(s string) (uint32, error) {
	v, err := strconv.ParseUint(s, 10, 32)
	return uint32(v), err
}

// renderMinor parses a minor number. A node without a DRM device has -1.
func renderMinor(s string) (uint32, error) {
	if v, err := strconv.ParseInt(s, 10, 32); err == nil && v < 0 {
		return 0, nil
	}
	return parse32(s)
}

// address returns the PCI address of the node. The low 16 bits of the location are bus,
// device and function. The number of the partition is in the top four bits, or, in older
// drivers, added to the function (kfd_topology_add_device, before and after "node id =
// location_id[31:28]").
func (n kfdNode) address() partition.Address {
	return partition.Address(fmt.Sprintf("%04x:%02x:%02x.%x",
		n.domain, n.location>>8&0xff, n.location>>3&0x1f, n.location&7))
}

// byGPU maps each GPU to the nodes of its partitions. A node belongs to the function with
// its address, otherwise to the one in the same slot.
func byGPU(nodes []kfdNode, gpus []*gpu.Function) map[partition.Address][]kfdNode {
	owner := make(map[string]partition.Address)
	for _, g := range slices.Backward(gpus) {
		owner[string(g.Address)] = g.Address
		owner[slot(g.Address)] = g.Address
	}
	parts := make(map[partition.Address][]kfdNode)
	minors := make(map[uint32]int)
	for _, k := range nodes {
		minors[k.minor]++
	}
	for _, k := range nodes {
		k.ambiguous = minors[k.minor] > 1
		a := k.address()
		g, ok := owner[string(a)]
		if !ok {
			g, ok = owner[slot(a)]
		}
		if ok && k.minor > 0 {
			parts[g] = append(parts[g], k)
		}
	}
	return parts
}

// slot returns the address without the function.
func slot(a partition.Address) string {
	s, _, _ := strings.Cut(string(a), ".")
	return s
}

// kfd is the directory of KFD in sysfs.
type kfd struct{ dir string }

// topology returns the directory of KFD's nodes.
func (k kfd) topology() string { return k.dir + "/topology/nodes" }

// processes returns the directory of KFD's processes.
func (k kfd) processes() string { return k.dir + "/proc" }

// nodes returns the KFD nodes by number, which is the order of a GPU's partitions. It is
// empty without KFD.
//
// A node that the device cgroup forbids is an error (kfd_devcgroup_check_permission), since
// a plan without its hive would be wrong.
func (k kfd) nodes() ([]kfdNode, error) {
	dir, names, err := sysfs.ListDir(k.topology())
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("cannot read the KFD topology: %w", err)
	}
	defer dir.Close()
	ids := names[:0]
	for _, name := range names {
		if _, err := strconv.Atoi(name); err == nil {
			ids = append(ids, name)
		}
	}
	nodes, errs := make([]kfdNode, len(ids)), make([]error, len(ids))
	sysfs.Each(len(ids), func(i int) { nodes[i], errs[i] = readNode(dir, ids[i]) })
	for _, err := range errs {
		if err != nil {
			return nil, err
		}
	}
	nodes = slices.DeleteFunc(nodes, func(n kfdNode) bool { return n.id == nodeGone })
	sorting.By(nodes, func(a, b kfdNode) int { return cmp.Compare(a.id, b.id) })
	return nodes, nil
}

// nodeGone is the id of a node that was renumbered during the read.
const nodeGone = -1

func readNode(dir sysfs.Dir, name string) (kfdNode, error) {
	file := filepath.Join(name, "properties")
	text, err := dir.Read(file)
	if errors.Is(err, fs.ErrNotExist) {
		return kfdNode{id: nodeGone}, nil
	}
	if err != nil {
		return kfdNode{}, fmt.Errorf("cannot read the KFD topology: %w", err)
	}
	node, err := parseProperties(text)
	if err != nil {
		return kfdNode{}, fmt.Errorf("%s: %w", dir.Path(file), err)
	}
	node.id, err = strconv.Atoi(name)
	return node, err
}

// addTopology adds the facts of the partitions' nodes to d.
func addTopology(d *gpu.Device, nodes []kfdNode) {
	xcc, unique := 0, ""
	// Render nodes are registered in the order of the partitions.
	sorting.By(nodes, func(a, b kfdNode) int { return cmp.Compare(a.minor, b.minor) })
	for i, k := range nodes {
		if !k.ambiguous {
			d.Parts = append(d.Parts, k.toPart(i))
		}
		xcc += int(k.xcc)
		d.Hive = k.hive
		d.RenderNodes = append(d.RenderNodes, gpu.RenderNode(int(k.minor)))
		if unique == "" {
			unique = k.unique
		}
		if unique != k.unique { // each partition has its own id
			unique = "differs"
		}
	}
	// A partition without a DRM minor is missing in the sum, so that it may be too low.
	if xcc > 0 && xcc >= d.XCC {
		d.XCC = xcc
		d.Source["xcc"] = gpu.Sysfs
	}
	if d.UniqueID == "" && unique != "differs" {
		d.UniqueID = unique
	}
}
