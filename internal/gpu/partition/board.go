package partition

import (
	"fmt"
	"slices"
	"strings"
)

// Board is the table's entry for an NVIDIA GPU with MIG. It suffices to validate a profile for
// another machine. On a host, what the driver reports takes precedence.
type Board struct {
	Device        uint16 // PCI device id
	Name          string // "H100-80GB"
	Profiles      []InstanceProfile
	Kind          string // its name in `dcm check --node`, "h100"
	ModeResetsGPU bool   // switching MIG resets the GPU
}

// boardRow is a row of the table of boards. Its profiles are built when they are needed.
type boardRow struct {
	device   uint16
	name     string
	kind     string
	resets   bool
	aliases  []uint16 // device ids of boards with the same profiles
	profiles func() []InstanceProfile
}

func (k boardRow) board() Board {
	return Board{Device: k.device, Name: k.name, Profiles: k.profiles(), Kind: k.kind, ModeResetsGPU: k.resets}
}

// boards lists the boards. The ids are those of pci.ids (see testdata/vendor/pci-ids.json);
// without a product there, such as 2302, or without its memory, such as 2336, an id is left out.
// The sizes of A100-64GB are unverified: NVIDIA publishes them for an H100 of the same memory.
func boards() []boardRow {
	return []boardRow{
		{0x20b0, "A100-40GB", "a100-40gb", true, []uint16{0x20b1, 0x20bd, 0x20f1, 0x20f6}, sevenSlices(5, 10, 20, 40)},
		{0x20b3, "A100-64GB", "a100-64gb", true, nil, sevenSlices(8, 16, 32, 64)},
		{0x20b2, "A100-80GB", "a100", true, []uint16{0x20b5, 0x20b8, 0x20f3, 0x20f5}, sevenSlices(10, 20, 40, 80)},
		{0x20b6, "PG506-96GB", "pg506", true, nil, sevenSlices(12, 24, 48, 96)},
		{0x20b7, "A30", "a30", true, []uint16{0x20b9}, fourSlices(6, 12, 24, false)},
		{0x2330, "H100-80GB", "h100", false, []uint16{0x2331, 0x2322, 0x2324, 0x2313}, sevenSlices(10, 20, 40, 80)},
		{0x2321, "H100-NVL-94GB", "h100-nvl", false, []uint16{0x233a, 0x2339}, sevenSlices(12, 24, 47, 94)},
		{0x2342, "GH200-96GB", "gh200", false, []uint16{0x233d, 0x2329}, sevenSlices(12, 24, 48, 96)},
		{0x2348, "GH200-144GB", "gh200-144gb", false, nil, sevenSlices(18, 36, 72, 144)},
		{0x2335, "H200-141GB", "h200", false, []uint16{0x233b}, sevenSlices(18, 35, 71, 141)},
		{0x2901, "B200-180GB", "b200", false, nil, sevenSlices(23, 45, 90, 180)},
		{0x2941, "GB200", "gb200", false, nil, sevenSlices(23, 47, 93, 186)},
		{0x3182, "B300", "b300", false, nil, sevenSlices(34, 67, 135, 269)},
		{0x31c2, "GB300", "gb300", false, []uint16{0x31c3}, sevenSlices(35, 70, 139, 278)},
		{0x2bb5, "RTX-PRO-6000", "rtx-pro-6000", false, []uint16{0x2bb1, 0x2bb4}, fourSlices(24, 48, 96, true)},
		{0x2bb3, "RTX-PRO-5000", "rtx-pro-5000", false, nil, rtxPro5000Profiles},
		{0x2c31, "RTX-PRO-4500", "rtx-pro-4500", false, nil, rtxPro4500Profiles},
	}
}

// Boards lists the boards that `dcm check --node` knows. The placements are those of
// NVIDIA's MIG user guide. The profile ids are those of the driver for its first board of
// the kind.
func Boards() []Board {
	var all []Board
	for _, k := range boards() {
		all = append(all, k.board())
	}
	return all
}

// BoardOf returns the table's entry for the GPU.
func BoardOf(g GPU) (Board, bool) {
	for _, k := range boards() {
		if k.matches(g) {
			return k.board(), true
		}
	}
	return Board{}, false
}

func (k boardRow) matches(g GPU) bool {
	return g.Vendor == NVIDIA && (k.device == g.Device || slices.Contains(k.aliases, g.Device))
}

// withKnownCounts corrects InstanceCount in the profiles that the driver reports, since it
// is wrong for an A30. On a known board an instance fits at each of its starts, but there is
// one set of media engines.
func withKnownCounts(g GPU, told []InstanceProfile) []InstanceProfile {
	if !slices.ContainsFunc(boards(), func(k boardRow) bool { return k.matches(g) }) {
		return told
	}
	out := slices.Clone(told)
	for i, s := range out {
		out[i].InstanceCount = len(s.Starts)
		if strings.HasSuffix(s.Name, "+me") || strings.HasSuffix(s.Name, "+me.all") {
			out[i].InstanceCount = 1
		}
	}
	return out
}

// LookupBoard returns the board of that name.
func LookupBoard(name string) (Board, bool) {
	for _, b := range Boards() {
		if b.Name == name {
			return b, true
		}
	}
	return Board{}, false
}

// sevenSlices is a board with seven compute slices and eight memory slots. The numbers are
// the GB of one, two, four and eight memory slots.
func sevenSlices(one, two, four, eight int) func() []InstanceProfile {
	return func() []InstanceProfile { return sevenSliceProfiles(one, two, four, eight) }
}

func sevenSliceProfiles(one, two, four, eight int) []InstanceProfile {
	return []InstanceProfile{
		instanceProfile("7g.%dgb", eight, 0, 1, 8, 0),
		instanceProfile("4g.%dgb", four, 5, 1, 4, 0),
		instanceProfile("3g.%dgb", four, 9, 2, 4, 0, 4),
		instanceProfile("2g.%dgb", two, 14, 3, 2, 0, 2, 4),
		instanceProfile("1g.%dgb", two, 15, 4, 2, 0, 2, 4, 6),
		instanceProfile("1g.%dgb", one, 19, 7, 1, 0, 1, 2, 3, 4, 5, 6),
		instanceProfile("1g.%dgb+me", one, 20, 1, 1, 0, 1, 2, 3, 4, 5, 6),
	}
}

// fourSlices is a board with four compute slices and four memory slots. A board with
// graphics has more profiles of the same sizes.
func fourSlices(one, two, all int, graphics bool) func() []InstanceProfile {
	return func() []InstanceProfile { return fourSliceProfiles(one, two, all, graphics) }
}

func fourSliceProfiles(one, two, all int, graphics bool) []InstanceProfile {
	if !graphics {
		return []InstanceProfile{
			instanceProfile("4g.%dgb", all, 0, 1, 4, 0),
			instanceProfile("2g.%dgb", two, 5, 2, 2, 0, 2),
			instanceProfile("2g.%dgb+me", two, 6, 1, 2, 0, 2),
			instanceProfile("1g.%dgb", one, 14, 4, 1, 0, 1, 2, 3),
			instanceProfile("1g.%dgb+me", one, 21, 1, 1, 0, 1, 2, 3),
		}
	}
	return []InstanceProfile{
		instanceProfile("4g.%dgb", all, 0, 1, 4, 0),
		instanceProfile("4g.%dgb+gfx", all, 32, 1, 4, 0),
		instanceProfile("2g.%dgb", two, 5, 2, 2, 0, 2),
		instanceProfile("2g.%dgb+gfx", two, 35, 2, 2, 0, 2),
		instanceProfile("2g.%dgb+me.all", two, 64, 1, 2, 0, 2),
		instanceProfile("2g.%dgb-me", two, 66, 2, 2, 0, 2),
		instanceProfile("1g.%dgb", one, 14, 4, 1, 0, 1, 2, 3),
		instanceProfile("1g.%dgb+me", one, 21, 1, 1, 0, 1, 2, 3),
		instanceProfile("1g.%dgb+gfx", one, 47, 4, 1, 0, 1, 2, 3),
		instanceProfile("1g.%dgb+me.all", one, 65, 1, 1, 0, 1, 2, 3),
		instanceProfile("1g.%dgb-me", one, 67, 4, 1, 0, 1, 2, 3),
	}
}

func instanceProfile(form string, memory, id, most, size int, starts ...int) InstanceProfile {
	return InstanceProfile{Name: fmt.Sprintf(form, memory), ID: id, InstanceCount: most, Size: size, Starts: starts}
}
