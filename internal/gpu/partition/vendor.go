package partition

import (
	"fmt"
	"slices"
	"strings"
)

// Vendor is a vendor of GPUs, by its PCI vendor id.
type Vendor uint16

// Vendors whose GPUs can be partitioned.
const (
	AMD    Vendor = 0x1002
	NVIDIA Vendor = 0x10de
)

func vendors() []Vendor { return []Vendor{AMD, NVIDIA} }

// VendorNamed returns the vendor with that [Vendor.Name].
func VendorNamed(name string) (v Vendor, ok bool) {
	i := slices.IndexFunc(vendors(), func(v Vendor) bool { return v.Name() == name })
	if i < 0 {
		return 0, false
	}
	return vendors()[i], true
}

func vendorNames() []string {
	var out []string
	for _, v := range vendors() {
		out = append(out, v.Name())
	}
	return out
}

// Name returns the name in configuration and output, "amd" or "nvidia"; "" for any other
// vendor.
func (v Vendor) Name() string {
	return strings.ToLower(v.known())
}

func (v Vendor) String() string {
	if name := v.known(); name != "" {
		return name
	}
	return fmt.Sprintf("%#04x", uint16(v))
}

func (v Vendor) known() string {
	switch v {
	case AMD:
		return "AMD"
	case NVIDIA:
		return "NVIDIA"
	}
	return ""
}
