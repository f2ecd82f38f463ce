package partition

import "fmt"

// Vendor is a maker of GPUs, by its PCI vendor id.
type Vendor uint16

// The vendors whose GPUs can be partitioned.
const (
	AMD Vendor = 0x1002
)

// Name is the vendor's in configuration and output, "amd"; "" for any other.
func (v Vendor) Name() string {
	if v == AMD {
		return "amd"
	}
	return ""
}

func (v Vendor) String() string {
	if v == AMD {
		return "AMD"
	}
	return fmt.Sprintf("%#04x", uint16(v))
}
