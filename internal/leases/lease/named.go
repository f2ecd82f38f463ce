package lease

import (
	"fmt"
	"regexp"
	"strconv"
	"strings"

	"dcm/internal/gpu/partition"
)

// PartName names a partition in a request: "0000:65:00.0-1", by the index of its GPU "3-1", or by the bus of
// its GPU "65-1".
type PartName struct {
	GPU   partition.Selector
	Bus   string // two hexadecimal digits; "" if GPU is set
	Index int    // of the partition in the GPU
}

var busNumber = regexp.MustCompile(`^[0-9a-f]{2}$`)

// ParsePartName parses the name of a partition. A GPU of two digits is a bus.
func ParsePartName(s string) (PartName, error) {
	at := strings.LastIndexByte(s, '-')
	wrong := fmt.Errorf("not a partition (found %q, want one such as 0000:65:00.0-1, 65-1 by the bus or 3-1 by the index of the GPU)", s)
	if at < 0 {
		return PartName{}, wrong
	}
	index, err := strconv.ParseUint(s[at+1:], 10, 16)
	if err != nil {
		return PartName{}, wrong
	}
	if busNumber.MatchString(s[:at]) {
		return PartName{Bus: s[:at], Index: int(index)}, nil
	}
	gpu, err := partition.ParseSelector(s[:at])
	if err != nil {
		return PartName{}, wrong
	}
	return PartName{GPU: gpu, Index: int(index)}, nil
}

// OnBus returns the only GPU on a bus.
func OnBus(bus string, gpus []partition.Address) (partition.Address, error) {
	var found []string
	for _, gpu := range gpus {
		if _, after, _ := strings.Cut(string(gpu), ":"); strings.HasPrefix(after, bus+":") {
			found = append(found, string(gpu))
		}
	}
	switch len(found) {
	case 0:
		return "", fmt.Errorf("there is no partitionable GPU on bus %s", bus)
	case 1:
		return partition.Address(found[0]), nil
	}
	return "", fmt.Errorf("%d GPUs are on bus %s (%s): use the PCI address", len(found), bus, strings.Join(found, ", "))
}
