package sim

import (
	"fmt"
	"strconv"
	"strings"

	"dcm/internal/gpu/partition"
)

// The fields of Kinds are constants in a valid form, so these functions return no errors.

func domain(a partition.Address) uint64 {
	d, _, _ := strings.Cut(string(a), ":")
	n, _ := strconv.ParseUint(d, 16, 32)
	return n
}

func inDomain(a partition.Address, d uint64) partition.Address {
	_, rest, _ := strings.Cut(string(a), ":")
	return partition.Address(fmt.Sprintf("%04x:%s", d, rest))
}

// bus returns the bus number. Device and function are 0 for every address here.
func bus(a partition.Address) uint64 {
	n, _ := strconv.ParseUint(strings.Split(string(a), ":")[1], 16, 8)
	return n
}

// root returns the PCI root complex of the bus, such as "0000:80", and port the root port between
// them.
func root(a partition.Address) string {
	return fmt.Sprintf("%04x:%02x", domain(a), bus(a)&0xe0)
}

func port(a partition.Address) string {
	return fmt.Sprintf("%s:%02x.1", root(a), bus(a)&0x1f)
}

// pciPath returns the device's directory below /sys.
func pciPath(a partition.Address) string {
	return "devices/pci" + root(a) + "/" + port(a) + "/" + string(a)
}
