package sim

import (
	"fmt"
	"slices"
	"strings"

	"dcm/internal/gpu/partition"
	"dcm/internal/gpu/record"
)

// Kind is a kind of node: its boards in PCI order.
type Kind struct {
	Name   string
	About  string
	CPUs   int // number of sockets: of NUMA nodes, and of CPU nodes of the KFD topology
	Boards []Board

	driver string      // version of the nvidia module; "" for the simulator's
	usage  UsageFormat // of the usage tables, if the options do not say it
}

// Board is one PCI function.
type Board struct {
	Chip    Chip
	Address partition.Address
	NUMA    int
	Hive    int // number of the XGMI hive, from 1; 0 for none

	recorded *recorded // nil for a built-in kind
}

// Kinds returns all kinds of nodes.
func Kinds() []Kind {
	oam := []string{"05", "26", "46", "65", "85", "a6", "c6", "e5"}
	sxm := []string{"1b", "43", "52", "61", "9d", "c3", "d1", "df"}
	return []Kind{
		{Name: "mi300x-8", About: "8 MI300X in one XGMI hive", CPUs: 2, Boards: eight(mi300x(), oam, 8)},
		{Name: "mi300x-8-bmc", About: "8 MI300X, and a BMC's VGA as card0", CPUs: 2, Boards: append(vga(), eight(mi300x(), oam, 8)...)},
		{Name: "mi300x-2x4", About: "8 MI300X in two hives of four", CPUs: 2, Boards: eight(mi300x(), oam, 4)},
		{Name: "mi300x-vf-8", About: "8 virtual functions of MI300X: modes are read-only", CPUs: 2, Boards: eight(mi300xVF(), oam, 0)},
		{Name: "mi325x-8", About: "8 MI325X in one XGMI hive", CPUs: 2, Boards: eight(mi325x(), oam, 8)},
		{Name: "mi355x-8", About: "8 MI355X in one XGMI hive", CPUs: 2, Boards: eight(mi355x(), oam, 8)},
		{Name: "mi308x-8", About: "8 MI308X, of four XCC, in one XGMI hive", CPUs: 2, Boards: eight(mi308x(), oam, 8)},
		{Name: "mi350p-8", About: "8 MI350P in PCIe slots, whose memory mode is fixed", CPUs: 2, Boards: eight(mi350p(), oam, 0)},
		{Name: "mi455x-8", About: "8 MI455X, whose memory modes are NPS1 and NPS4", CPUs: 2, Boards: eight(mi455x(), oam, 8)},
		{Name: "unknown-8", About: "8 GPUs of a model that no table has", CPUs: 2, Boards: eight(futureAMD(), oam, 8)},
		{Name: "mi300a-4", About: "4 MI300A, whose memory mode is fixed", CPUs: 4, Boards: apus()},
		{Name: "a100-8", About: "8 A100, which keep their MIG mode over a reboot", CPUs: 2, Boards: eight(a100(), sxm, 0)},
		{Name: "h100-8", About: "8 H100, which lose their MIG mode and instances in a reboot", CPUs: 2, Boards: eight(h100(), sxm, 0)},
		{Name: "h200-8", About: "8 H200", CPUs: 2, Boards: eight(h200(), sxm, 0)},
		{Name: "gb200-4", About: "4 GB200", CPUs: 2, Boards: eight(gb200(), sxm[:4], 0)},
		{Name: "gb300-4", About: "4 GB300", CPUs: 2, Boards: eight(gb300(), sxm[:4], 0)},
		{Name: "b300-8", About: "8 B300", CPUs: 2, Boards: eight(b300(), sxm, 0)},
		{Name: "h100-vgpu-2", About: "2 vGPUs of H100 in a guest: MIG cannot be changed", CPUs: 2, Boards: eight(h100VGPU(), sxm[:2], 0)},
		{Name: "rtx-pro-4500-4", About: "4 RTX PRO 4500, of two slices", CPUs: 2, Boards: eight(rtxPro4500(), sxm[:4], 0)},
		{Name: "rtx-pro-5000-4", About: "4 RTX PRO 5000, of four slices", CPUs: 2, Boards: eight(rtxPro5000(), sxm[:4], 0)},
		{Name: "b200-8", About: "8 B200", CPUs: 2, Boards: eight(b200(), sxm, 0)},
		{Name: "a30-4", About: "4 A30, of four slices", CPUs: 2, Boards: eight(a30(), sxm[:4], 0)},
		{Name: "rtx-pro-6000-4", About: "4 RTX PRO 6000, of four slices, with graphics", CPUs: 2, Boards: eight(rtxPro(), sxm[:4], 0)},
		{Name: "mi300x-4+h100-4", About: "4 MI300X in one XGMI hive and 4 H100", CPUs: 2, Boards: append(eight(mi300x(), oam[:4], 4), eight(h100(), sxm[4:], 0)...)},
		{Name: "mi210-2", About: "2 MI210, which cannot be partitioned", CPUs: 2, Boards: eight(mi210(), []string{"27", "a3"}, 0)},
	}
}

// LookupKind returns the kind of that name, or the node of a record if the name is a path.
func LookupKind(name string) (Kind, error) {
	if record.IsFile(name) {
		return ReadKind(name)
	}
	var names []string
	for _, k := range Kinds() {
		if k.Name == name {
			return k, nil
		}
		names = append(names, k.Name)
	}
	return Kind{}, fmt.Errorf("unknown kind of node %q: there are %s", name, strings.Join(names, ", "))
}

// Scaled returns the kind with another number of GPUs. For more GPUs the same boards are repeated in
// further PCI domains and hives.
func (k Kind) Scaled(gpus int) Kind {
	var others, all []Board
	for _, b := range k.Boards {
		if b.Chip.AMD() || b.Chip.NVIDIA() {
			all = append(all, b)
		} else {
			others = append(others, b)
		}
	}
	domains, hives := uint64(0), 0
	for _, b := range all {
		domains = max(domains, domain(b.Address)+1)
		hives = max(hives, b.Hive)
	}
	k.Boards = others
	for i := range gpus {
		b, round := all[i%len(all)], i/len(all)
		b.Address = inDomain(b.Address, domain(b.Address)+uint64(round)*domains)
		if b.Hive > 0 {
			b.Hive += round * hives
		}
		k.Boards = append(k.Boards, b)
	}
	slices.SortFunc(k.Boards, func(a, b Board) int { return a.Address.Compare(b.Address) })
	return k
}

// eight returns eight boards with the same chip, each on its own bus. The first half is at NUMA node 0.
// Each `joined` neighbouring GPUs are in one hive.
func eight(c Chip, buses []string, perHive int) []Board {
	var out []Board
	for i, bus := range buses {
		b := Board{Chip: c, Address: partition.Address("0000:" + bus + ":00.0"), NUMA: i * 2 / len(buses)}
		if perHive > 0 {
			b.Hive = 1 + i/perHive
		}
		out = append(out, b)
	}
	return out
}

// apus returns MI300A: each is in its own PCI domain and NUMA node.
func apus() []Board {
	var out []Board
	for i := range 4 {
		out = append(out, Board{Chip: mi300a(), Address: partition.Address(fmt.Sprintf("%04x:01:00.0", i)), NUMA: i, Hive: 1})
	}
	return out
}

func vga() []Board {
	return []Board{{Chip: aspeed(), Address: "0000:03:00.0"}}
}
