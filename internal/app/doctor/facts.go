package doctor

import (
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"dcm/internal/gpu/partition"
	"dcm/internal/linux/sysfs"
)

// facts is a host as its files show it.
type facts struct {
	root   string
	cfg    Config
	kernel string // release, "6.8.0-79-generic"
	gpus   []function
	nvidia string // version of the loaded driver, "" if it is not loaded
	open   bool   // it is the open kernel modules
}

// function is a GPU that can be partitioned.
type function struct {
	address partition.Address
	vendor  partition.Vendor
	device  uint16
	driver  string // bound kernel driver; "" if none
	model   string
	resets  bool // switching MIG resets the GPU
}

func read(root string, cfg Config) *facts {
	f := &facts{root: root, cfg: cfg}
	f.kernel = f.text("proc/sys/kernel/osrelease")
	f.gpus = f.functions()
	f.nvidia, f.open = nvidiaVersion(f.text("proc/driver/nvidia/version"))
	return f
}

func (f *facts) path(elem ...string) string {
	return filepath.Join(append([]string{f.root}, elem...)...)
}

// text returns the content of an attribute, "" if it cannot be read: what a check cannot
// see is no finding.
func (f *facts) text(elem ...string) string {
	s, err := sysfs.Optional(f.path(elem...))
	if err != nil {
		return ""
	}
	return s
}

func (f *facts) exists(elem ...string) bool {
	_, err := os.Lstat(f.path(elem...))
	return err == nil
}

const pciDevices = "sys/bus/pci/devices"

// functions lists the GPUs of the tables of models and boards, in PCI order.
func (f *facts) functions() []function {
	names, _ := sysfs.Names(f.path(pciDevices)) // without the directory there are none
	var out []function
	for _, name := range names {
		a, err := partition.ParseAddress(name)
		if err != nil {
			continue
		}
		g := function{address: a}
		g.vendor = partition.Vendor(f.number(pciDevices, name, "vendor"))
		g.device = f.number(pciDevices, name, "device")
		if m, ok := partition.LookupModel(g.vendor, g.device); ok && !m.Virtual {
			g.model = m.Name
		}
		if b, ok := partition.BoardOf(partition.GPU{Vendor: g.vendor, Device: g.device}); ok {
			g.model, g.resets = b.Name, b.ModeResetsGPU
		}
		g.driver, _ = sysfs.Link(f.path(pciDevices, name, "driver"))
		if g.model != "" {
			out = append(out, g)
		}
	}
	slices.SortFunc(out, func(a, b function) int { return a.address.Compare(b.address) })
	return out
}

func (f *facts) number(elem ...string) uint16 {
	n, _ := strconv.ParseUint(f.text(elem...), 0, 16) // 0 is no id
	return uint16(n)
}

// of returns the GPUs of a vendor.
func (f *facts) of(v partition.Vendor) []function {
	return slices.DeleteFunc(slices.Clone(f.gpus), func(g function) bool { return g.vendor != v })
}

// enabled reports whether the unit is started at boot.
func (f *facts) enabled(unit string) bool {
	for _, dir := range []string{"etc/systemd/system", "run/systemd/system", "usr/lib/systemd/system", "lib/systemd/system"} {
		for _, kind := range []string{"wants", "requires"} {
			if found, _ := filepath.Glob(f.path(dir, "*."+kind, unit)); len(found) > 0 { // the pattern is valid
				return true
			}
		}
	}
	return false
}

// nvidiaVersion parses /proc/driver/nvidia/version.
func nvidiaVersion(text string) (version string, open bool) {
	line, _, _ := strings.Cut(text, "\n")
	for _, word := range strings.Fields(line) {
		if parts := numbers(word); len(parts) >= 2 && parts[0] >= 100 {
			return word, strings.Contains(line, "Open Kernel Module")
		}
	}
	return "", false
}

// numbers returns the numbers of a version at the begin of text: "6.8.0-79-generic" has 6, 8
// and 0. Nil means that text begins with none.
func numbers(text string) []int {
	end := strings.IndexFunc(text, func(r rune) bool { return r != '.' && (r < '0' || r > '9') })
	if end >= 0 {
		text = text[:end]
	}
	var out []int
	for part := range strings.SplitSeq(text, ".") {
		n, err := strconv.Atoi(part)
		if err != nil {
			break
		}
		out = append(out, n)
	}
	return out
}

// older reports whether a version is before another. An unknown version is not.
func older(version, than string) bool {
	v := numbers(version)
	return v != nil && slices.Compare(v, numbers(than)) < 0
}
