package gpu

import (
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"dcm/internal/gpu/partition"
	"dcm/internal/linux/sysfs"
	"dcm/internal/sorting"
)

// Minors describes how many DRM minor numbers exist and which are in use. Each device takes
// a primary and usually a render minor. At its load, a driver registers all devices that its
// GPUs can need in any mode.
type Minors struct {
	Kernel  string // kernel release; "" if unknown
	Highest int    // highest minor in use; -1 for none
	Cards   []Card // the devices with a primary minor

	traits []Traits
}

// Card is a DRM device with a primary minor.
type Card struct {
	Device string // last element of its sysfs path: a PCI address, "amdgpu_xcp_7", "ast"
	Driver string // equal to Device if it has no driver
}

// Limits of the kernel. Minors from 192 exist since 071d583e01c8 (drm_drv.c,
// DRM_MINOR_LIMIT), in 6.12, 6.11.1 and 6.6.53. Secondary partitions are platform devices,
// whose number amdgpu_xcp_drv.c limits (MAX_XCP_PLATFORM_DEVICE).
const (
	limitedMinors      = 64
	firstExtendedMinor = 192
	maxPlatformDevices = 64
)

// ReadMinors reads the minors in use. sys is the mount point of sysfs, kernel the kernel
// release.
func ReadMinors(sys, kernel string, vendors []Traits) (Minors, error) {
	m := UnusedMinors(vendors)
	m.Kernel = kernel
	drm, names, err := sysfs.ListDir(filepath.Join(sys, "class/drm"))
	if errors.Is(err, fs.ErrNotExist) {
		return m, nil
	}
	if err != nil {
		return m, fmt.Errorf("cannot read the DRM devices: %w", err)
	}
	defer drm.Close()
	primary := names[:0]
	for _, name := range names {
		kind, number, ok := DRMName(name)
		if !ok {
			continue // a connector
		}
		m.Highest = max(m.Highest, number)
		if kind == "card" {
			primary = append(primary, name)
		}
	}
	m.Cards = make([]Card, len(primary))
	errs := make([]error, len(primary))
	sysfs.Each(len(primary), func(i int) { m.Cards[i], errs[i] = m.card(drm, primary[i]) })
	if err := errors.Join(errs...); err != nil {
		return m, fmt.Errorf("cannot read the DRM devices: %w", err)
	}
	return m, nil
}

// UnusedMinors returns the Minors of a node other than this one: no minor is in use.
func UnusedMinors(vendors []Traits) Minors { return Minors{Highest: -1, traits: vendors} }

// card reads the owner of a primary minor. It does not read the driver of secondary
// partitions, which are many and have none.
func (m Minors) card(drm sysfs.Dir, name string) (Card, error) {
	device, err := drm.Link(name + "/device")
	c := Card{Device: device, Driver: device}
	if err != nil || m.isPartitionDevice(device) {
		return c, err
	}
	driver, err := drm.Link(name + "/device/driver")
	if driver != "" {
		c.Driver = driver
	}
	return c, err
}

// isPartitionDevice reports whether a device is a secondary partition of a GPU.
func (m Minors) isPartitionDevice(device string) bool {
	return slices.ContainsFunc(m.traits, func(t Traits) bool { return t.PartitionPrefix != "" && strings.HasPrefix(device, t.PartitionPrefix) })
}

// otherDrivers returns the drivers of the cards that belong to none of the GPUs.
func (m Minors) otherDrivers(gpus []partition.GPU) []string {
	var out []string
	for _, c := range m.Cards {
		if !slices.ContainsFunc(gpus, func(g partition.GPU) bool { return string(g.Address) == c.Device }) &&
			!m.isPartitionDevice(c.Device) {
			out = append(out, c.Driver)
		}
	}
	return out
}

// minorsPerGPU returns how many DRM devices the vendor's driver registers for each GPU.
func (m Minors) minorsPerGPU(v partition.Vendor) int {
	for _, t := range m.traits {
		if t.Vendor == v {
			return max(t.MinorsPerGPU, 1)
		}
	}
	return 1
}

// neededMinors returns how many primary minors all devices need.
func (m Minors) neededMinors(gpus []partition.GPU, others []string) int {
	n := len(others)
	for _, g := range gpus {
		n += m.minorsPerGPU(g.Vendor)
	}
	return n
}

// limitedTo64 reports whether the kernel has only 64 minors, and the evidence. The release
// alone is no proof: distributions backport the change.
func (m Minors) limitedTo64(needed int) (is bool, by string) {
	switch {
	case m.Highest >= firstExtendedMinor:
		return false, fmt.Sprintf("minor %d is in use", m.Highest)
	case len(m.Cards) >= limitedMinors && needed > limitedMinors:
		return true, "all of them are in use, and no higher minor"
	case m.Kernel == "":
		return true, "kernels from 6.12, 6.11.1 and 6.6.53 on have more"
	}
	return !hasExtendedMinors(m.Kernel), "according to its version; kernels from 6.12, 6.11.1 and 6.6.53 on have more"
}

// hasExtendedMinors reports whether a kernel of that release has more than 64 minors.
func hasExtendedMinors(release string) bool {
	var n [3]int
	for i, s := range strings.SplitN(release, ".", 3) {
		digits := len(s) - len(strings.TrimLeft(s, "0123456789"))
		n[i], _ = strconv.Atoi(s[:digits]) // 0 if it is not a number
	}
	return slices.Compare(n[:], []int{6, 12, 0}) >= 0 || n[0] == 6 && (n[1] == 11 && n[2] >= 1 || n[1] == 6 && n[2] >= 53)
}

// Shortage describes partitions without a device node.
type Shortage struct {
	Partitions []string // partition names, "0000:05:00.0-7"
	Text, Hint string
}

// Shortage returns the partitions that have no device node when the GPUs have these modes;
// nil if each has one. It assumes that other drivers register their devices first and that a
// driver registers its GPUs in PCI order.
func (m Minors) Shortage(gpus []partition.GPU) *Shortage {
	gpus = slices.Clone(gpus)
	sorting.By(gpus, func(a, b partition.GPU) int { return a.Address.Compare(b.Address) })
	others := m.otherDrivers(gpus)
	needed := m.neededMinors(gpus, others)
	old, by := m.limitedTo64(needed)
	var s Shortage
	n, further := len(others), 0
	for _, g := range gpus {
		for i := range m.minorsPerGPU(g.Vendor) {
			n++
			if i > 0 {
				further++
			}
			if (old && n > limitedMinors || further > maxPlatformDevices) && i < g.Partitions() {
				s.Partitions = append(s.Partitions, fmt.Sprintf("%s-%d", g.Address, i))
			}
		}
	}
	if len(s.Partitions) == 0 {
		return nil
	}
	s.Text, s.Hint = m.describe(s.Partitions, others, needed, old, by)
	if further > maxPlatformDevices {
		s.Text += fmt.Sprintf("; the driver has %d for further partitions of all GPUs, and they take %d", maxPlatformDevices, further)
		s.Hint = "select modes with fewer partitions for the last GPUs"
	}
	return &s
}

func (m Minors) describe(names, others []string, needed int, old bool, by string) (text, hint string) {
	text = strings.Join(names, ", ") + " gets no device node"
	if !old {
		return text, ""
	}
	kernel := "older kernels have"
	if m.Kernel != "" {
		kernel = "kernel " + m.Kernel + " has"
	}
	and, hint := "", "boot a kernel from 6.12 on"
	if len(others) > 0 {
		all := strings.Join(slices.Compact(slices.Sorted(slices.Values(others))), ", ")
		and = " and " + all
		hint += ", or keep " + all + " from loading (blacklist, in modprobe.d(5))"
	}
	return fmt.Sprintf("%s: the GPUs%s take %d DRM devices, whatever the modes, and %s %d (%s)", text, and, needed, kernel, limitedMinors, by), hint
}
