package partition

import "fmt"

// Board is what is known beforehand about an NVIDIA GPU with MIG: enough to judge a
// profile for a machine that is not at hand. On a host the device is asked.
type Board struct {
	Device uint16 // PCI device id
	Name   string // "H100-80GB"
	Slots  []Slots
}

// Boards lists the boards that `dcm check --node` knows. The runs of slots are those of
// the vendor's MIG user guide; the ids are the driver's for its first board of the kind.
func Boards() []Board {
	return []Board{
		{0x20b0, "A100-40GB", seven(5, 10, 20, 40)},
		{0x20b2, "A100-80GB", seven(10, 20, 40, 80)},
		{0x20b7, "A30", four(6, 12, 24, false)},
		{0x2330, "H100-80GB", seven(10, 20, 40, 80)},
		{0x2321, "H100-NVL-94GB", seven(12, 24, 47, 94)},
		{0x2342, "GH200-96GB", seven(12, 24, 48, 96)},
		{0x2335, "H200-141GB", seven(18, 35, 71, 141)},
		{0x2901, "B200-180GB", seven(23, 45, 90, 180)},
		{0x2bb5, "RTX-PRO-6000", four(24, 48, 96, true)},
	}
}

// boardOf returns the board that the GPU is.
func boardOf(g GPU) (Board, bool) {
	for _, b := range Boards() {
		if g.Vendor == NVIDIA && b.Device == g.Device {
			return b, true
		}
	}
	return Board{}, false
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

// seven is a board with seven compute slices and eight memory slots; the numbers are
// the gigabytes of one slot, two, four and eight.
func seven(one, two, four, eight int) []Slots {
	return []Slots{
		slots("7g.%dgb", eight, 0, 1, 8, 0),
		slots("4g.%dgb", four, 5, 1, 4, 0),
		slots("3g.%dgb", four, 9, 2, 4, 0, 4),
		slots("2g.%dgb", two, 14, 3, 2, 0, 2, 4),
		slots("1g.%dgb", two, 15, 4, 2, 0, 2, 4, 6),
		slots("1g.%dgb", one, 19, 7, 1, 0, 1, 2, 3, 4, 5, 6),
		slots("1g.%dgb+me", one, 20, 1, 1, 0, 1, 2, 3, 4, 5, 6),
	}
}

// four is a board with four slices and four slots. Those with graphics have more
// kinds of the same slices.
func four(one, two, all int, graphics bool) []Slots {
	if !graphics {
		return []Slots{
			slots("4g.%dgb", all, 0, 1, 4, 0),
			slots("2g.%dgb", two, 5, 2, 2, 0, 2),
			slots("2g.%dgb+me", two, 6, 1, 2, 0, 2),
			slots("1g.%dgb", one, 14, 4, 1, 0, 1, 2, 3),
			slots("1g.%dgb+me", one, 21, 1, 1, 0, 1, 2, 3),
		}
	}
	return []Slots{
		slots("4g.%dgb", all, 0, 1, 4, 0),
		slots("4g.%dgb+gfx", all, 32, 1, 4, 0),
		slots("2g.%dgb", two, 5, 2, 2, 0, 2),
		slots("2g.%dgb+gfx", two, 35, 2, 2, 0, 2),
		slots("2g.%dgb+me.all", two, 64, 1, 2, 0, 2),
		slots("2g.%dgb-me", two, 66, 2, 2, 0, 2),
		slots("1g.%dgb", one, 14, 4, 1, 0, 1, 2, 3),
		slots("1g.%dgb+me", one, 21, 1, 1, 0, 1, 2, 3),
		slots("1g.%dgb+gfx", one, 47, 4, 1, 0, 1, 2, 3),
		slots("1g.%dgb+me.all", one, 65, 1, 1, 0, 1, 2, 3),
		slots("1g.%dgb-me", one, 67, 4, 1, 0, 1, 2, 3),
	}
}

func slots(form string, memory, id, most, size int, starts ...int) Slots {
	return Slots{Name: fmt.Sprintf(form, memory), ID: id, Max: most, Size: size, Starts: starts}
}
