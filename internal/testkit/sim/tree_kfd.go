package sim

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"
)

const (
	kfdDir   = "sys/devices/virtual/kfd/kfd"
	kfdMajor = 234
)

// addKFD adds KFD's device and its topology (kfd_topology.c). Nodes and processes change more often than
// the rest, so their entries are made at each access.
func addKFD(n *Node, t tree) {
	t.text(kfdDir+"/dev", fmt.Sprintf("%d:0", kfdMajor))
	t.put(kfdDir+"/uevent", uevent(fmt.Sprintf("MAJOR=%d\nMINOR=0\nDEVNAME=kfd\n", kfdMajor)))
	t.link(kfdDir+"/subsystem", "sys/class/kfd")
	t.link("sys/class/kfd/kfd", kfdDir)
	t.link(fmt.Sprintf("sys/dev/char/%d:0", kfdMajor), kfdDir)
	t.text(kfdDir+"/topology/system_properties", "platform_oem 0\nplatform_id 0\nplatform_rev 0\n")
	t.put(kfdDir+"/topology/generation_id", attribute(0o444, func(context.Context) (string, error) {
		n.mu.Lock()
		defer n.mu.Unlock()
		return strconv.FormatUint(n.topology, 10) + "\n", nil
	}))
	t.put(kfdDir+"/topology/nodes", directory(func() map[string]*Entry { return kfdNodes(n) }))
	t.put(kfdDir+"/proc", liveDirectory(func() map[string]*Entry { return kfdProcesses(n) }))
}

func kfdProcesses(n *Node) map[string]*Entry {
	n.mu.LockRead()
	defer n.mu.UnlockRead()
	t := newTree()
	for _, pid := range kfdPIDs(n) {
		dir := strconv.Itoa(pid)
		t.text(dir+"/pasid", strconv.Itoa(0x8000+pid%0x8000))
		t.dir(dir + "/queues")
		for _, k := range kfdGPUs(n) {
			if !attached(n, pid, k.board) {
				continue
			}
			for _, context := range kfdContexts(n, pid) {
				at := dir
				if context > 0 {
					at = fmt.Sprintf("%s/context_%d", dir, context)
				}
				t.put(fmt.Sprintf("%s/vram_%d", at, k.gpuID()), measured(n, func() (string, error) {
					return strconv.FormatUint(n.uses.vram[tenant{pid, context, k.index, k.partition}], 10) + "\n", nil
				}))
			}
			t.text(fmt.Sprintf("%s/sdma_%d", dir, k.gpuID()), "0")
		}
	}
	applyLies(n, kfdDir+"/proc/", t.root())
	return t
}

// kfdContexts returns the numbers of the contexts of a process, 0 for its first one. The caller holds n.mu.
func kfdContexts(n *Node, pid int) []int {
	all := []int{0}
	for t := range n.uses.vram {
		if t.pid == pid && !slices.Contains(all, t.context) {
			all = append(all, t.context)
		}
	}
	return all
}

// kfdNodes returns the nodes of the topology: first the CPUs, then the active partitions.
func kfdNodes(n *Node) map[string]*Entry {
	n.mu.LockRead()
	defer n.mu.UnlockRead()
	if n.cache.nodes != nil && n.cache.topology == n.topology {
		return n.cache.nodes
	}
	t := newTree()
	gpus := kfdGPUs(n)
	for cpu := range n.kind.CPUs {
		t.lazy(strconv.Itoa(cpu), func(t tree) { addCPUNode(t, cpu, n.kind.CPUs) })
	}
	for _, k := range gpus {
		t.lazy(strconv.Itoa(k.id), func(t tree) { k.add(t, gpus) })
	}
	applyLies(n, kfdDir+"/topology/nodes/", t.root())
	n.cache.nodes, n.cache.topology = t, n.topology
	return t
}

// kfdGPU is a GPU node: an active partition at the time when the nodes were listed.
type kfdGPU struct {
	*board
	id, partition, of int
}

// kfdGPUs returns the active partitions. The caller holds n.mu.
func kfdGPUs(n *Node) []kfdGPU {
	var out []kfdGPU
	id := n.kind.CPUs
	for _, b := range n.boards {
		if !b.bound || !b.Chip.AMD() {
			continue
		}
		of := b.partitions()
		for p := range of {
			if len(minorsOf(n, b, p)) == 0 {
				continue // as the driver: "no drm node assigned"
			}
			out = append(out, kfdGPU{b, id, p, of})
			id++
		}
	}
	return out
}

// gpuID returns a number of 16 bits, as KFD does, that differs for each partition of each GPU. The
// multiplier is odd, so no two partitions get the same number.
func (k kfdGPU) gpuID() uint16 { return uint16(k.index*xcps+k.partition)*40503 + 12345 }

func (k kfdGPU) add(t tree, all []kfdGPU) {
	t.text("gpu_id", strconv.Itoa(int(k.gpuID())))
	t.text("name", "ip discovery")
	t.text("properties", k.properties(all))
	t.text("mem_banks/0/properties", properties{
		{"heap_type", 1}, {"size_in_bytes", k.Chip.VRAM / uint64(k.of)}, {"flags", 0}, {"width", 8192}, {"mem_clk_max", 1300},
	}.String())
	t.dir("caches")
	t.dir("p2p_links")
	// There is a link to each other partition of the hive, and few programs read them.
	t.lazy("io_links", func(t tree) {
		const pcie, xgmi = 2, 11
		kind := uint64(pcie)
		if k.Chip.APU {
			kind = xgmi
		}
		addLink(t, 0, kind, k.id, k.NUMA, 20)
		for i, peer := range k.peers(all) {
			addLink(t, i+1, xgmi, k.id, peer.id, 15)
		}
	})
}

// peers returns the other partitions that are connected by XGMI.
func (k kfdGPU) peers(all []kfdGPU) []kfdGPU {
	var out []kfdGPU
	for _, other := range all {
		if other.id != k.id && k.Hive != 0 && other.Hive == k.Hive {
			out = append(out, other)
		}
	}
	return out
}

func addCPUNode(t tree, cpu, cpus int) {
	t.text("gpu_id", "0")
	t.text("name", "")
	t.text("properties", properties{
		{"cpu_cores_count", 96}, {"simd_count", 0}, {"mem_banks_count", 1}, {"caches_count", 0}, {"io_links_count", uint64(cpus - 1)},
		{"p2p_links_count", 0}, {"cpu_core_id_base", uint64(cpu * 96)}, {"simd_id_base", 0}, {"max_waves_per_simd", 0}, {"lds_size_in_kb", 0},
		{"gds_size_in_kb", 0}, {"num_gws", 0}, {"wave_front_size", 0}, {"array_count", 0}, {"simd_arrays_per_engine", 0}, {"cu_per_simd_array", 0},
		{"simd_per_cu", 0}, {"max_slots_scratch_cu", 0}, {"gfx_target_version", 0}, {"vendor_id", 0}, {"device_id", 0}, {"location_id", 0},
		{"domain", 0}, {"drm_render_minor", 0}, {"hive_id", 0}, {"num_sdma_engines", 0}, {"num_sdma_xgmi_engines", 0},
		{"num_sdma_queues_per_engine", 0}, {"num_cp_queues", 0}, {"max_engine_clk_ccompute", 3700},
	}.String())
	t.text("mem_banks/0/properties", properties{{"heap_type", 0}, {"size_in_bytes", 768 << 30}, {"flags", 0}, {"width", 0}, {"mem_clk_max", 0}}.String())
	t.dir("caches")
	t.dir("p2p_links")
	links := t.dir("io_links")
	const hyperTransport = 1
	for other := range cpus {
		if other != cpu {
			addLink(links, len(links), hyperTransport, cpu, other, 32)
		}
	}
}

func addLink(t tree, number int, kind uint64, from, to int, weight uint64) {
	t.text(strconv.Itoa(number)+"/properties", properties{
		{"type", kind}, {"version_major", 0}, {"version_minor", 0}, {"node_from", uint64(from)}, {"node_to", uint64(to)}, {"weight", weight},
		{"min_latency", 0}, {"max_latency", 0}, {"min_bandwidth", 64000}, {"max_bandwidth", 64000},
		{"recommended_transfer_size", 0}, {"recommended_sdma_engine_id_mask", 0}, {"flags", 1},
	}.String())
}

// properties returns the text of a property file of KFD: a name and a number in each line.
type properties []struct {
	name  string
	value uint64
}

func (p properties) String() string {
	var out strings.Builder
	for _, f := range p {
		fmt.Fprintf(&out, "%s %d\n", f.name, f.value)
	}
	return out.String()
}
