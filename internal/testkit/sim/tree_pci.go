package sim

import (
	"context"
	"encoding/binary"
	"fmt"
	"strings"
	"syscall"

	"dcm/internal/gpu/partition"
)

// addPCI adds a PCI function.
func addPCI(n *Node, t tree, b *board) {
	dir := "sys/" + pciPath(b.Address)
	bound, bindings, minors := b.bound, b.bindings, minorsOf(n, b, 0)
	t.lazy(dir, func(t tree) {
		addFunction(t, b.Board)
		t["subsystem"] = link(dir+"/subsystem", "sys/bus/pci")
		if !bound {
			return
		}
		t["driver"] = link(dir+"/driver", "sys/bus/pci/drivers/"+b.Chip.Driver)
		t["driver"].Number = bindings
		addMinors(t.dir("drm"), dir, minors)
		if b.Chip.AMD() {
			addAMD(t, b)
			b.addRecorded(t)
			addUse(n, t, b)
		}
		if b.Chip.NVIDIA() && (b.recorded == nil || b.recorded.resets) {
			t["reset"] = uevent("")
			t["reset"].Mode = syscall.S_IFREG | 0o200
		}
		if b.Chip.XCC > 0 {
			addPartitionFiles(n, t, b)
		}
	})
	t.link("sys/bus/pci/devices/"+string(b.Address), dir)
	if bound {
		t.link("sys/bus/pci/drivers/"+b.Chip.Driver+"/"+string(b.Address), dir)
	}
}

// addPort adds the root port of a function.
func addPort(t tree, b *board) {
	name := port(b.Address)
	dir := "sys/devices/pci" + root(b.Address) + "/" + name
	addFunction(t.dir(dir), Board{
		Chip:    Chip{Driver: "pcieport", Vendor: 0x1022, Device: 0x14ab, Class: 0x060400},
		Address: partition.Address(name), NUMA: b.NUMA,
	})
	t.link(dir+"/subsystem", "sys/bus/pci")
	t.link("sys/bus/pci/devices/"+name, dir)
}

// addFunction adds the files of every PCI function
// (Documentation/ABI/testing/sysfs-bus-pci).
func addFunction(t tree, b Board) {
	c := b.Chip
	text := func(name, format string, args ...any) { t.put(name, file(0o444, fmt.Sprintf(format, args...))) }
	text("vendor", "0x%04x", c.Vendor)
	text("device", "0x%04x", c.Device)
	text("subsystem_vendor", "0x%04x", c.SubVendor)
	text("subsystem_device", "0x%04x", c.SubDevice)
	text("class", "0x%06x", c.Class)
	text("revision", "0x%02x", c.Revision)
	text("numa_node", "%d", b.NUMA)
	text("local_cpulist", "%s", cpuList(b.NUMA))
	text("irq", "%d", 64+bus(b.Address))
	text("enable", "1")
	text("power_state", "D0")
	text("resource", "%s", strings.Repeat("0x0000000000000000 0x0000000000000000 0x0000000000000000\n", 13))
	for _, limit := range []string{"current", "max"} {
		text(limit+"_link_speed", "32.0 GT/s PCIe")
		text(limit+"_link_width", "16")
	}
	alias := fmt.Sprintf("pci:v%08Xd%08Xsv%08Xsd%08Xbc%02Xsc%02Xi%02X", c.Vendor, c.Device, c.SubVendor, c.SubDevice,
		c.Class>>16, c.Class>>8&0xff, c.Class&0xff)
	text("modalias", "%s", alias)
	t.put("config", configSpace(c))
	t.put("uevent", uevent(fmt.Sprintf("DRIVER=%s\nPCI_CLASS=%X\nPCI_ID=%04X:%04X\nPCI_SUBSYS_ID=%04X:%04X\nPCI_SLOT_NAME=%s\nMODALIAS=%s\n",
		c.Driver, c.Class, c.Vendor, c.Device, c.SubVendor, c.SubDevice, b.Address, alias)))
}

// configSpace returns the standard header, with the fields that lspci and libpciaccess read.
func configSpace(c Chip) *Entry {
	h := make([]byte, 64)
	binary.LittleEndian.PutUint16(h[0x00:], c.Vendor)
	binary.LittleEndian.PutUint16(h[0x02:], c.Device)
	binary.LittleEndian.PutUint32(h[0x08:], c.Class<<8|uint32(c.Revision))
	binary.LittleEndian.PutUint16(h[0x2c:], c.SubVendor)
	binary.LittleEndian.PutUint16(h[0x2e:], c.SubDevice)
	if c.Class == 0x060400 {
		h[0x0e] = 1
	}
	return attribute(0o644, func(context.Context) (string, error) { return string(h), nil })
}

// addAMD adds the files that amdgpu has for every GPU.
func addAMD(t tree, b *board) {
	c := b.Chip
	unique := b.uniqueID()
	for _, f := range []staticFile{
		{"unique_id", fmt.Sprintf("%016x", unique)},
		{"serial_number", fmt.Sprintf("PCB%09d", unique%1_000_000_000)},
		{"product_name", c.Product},
		{"product_number", fmt.Sprintf("102-G%04X-00", c.Device)},
		{"manufacturer", "AMD"},
		{"vbios_version", "113-M3000100-103"},
		{"mem_info_vram_total", fmt.Sprint(c.VRAM)},
		{"mem_info_vis_vram_total", fmt.Sprint(c.VRAM)},
		{"mem_info_vram_vendor", "hynix"},
	} {
		t.text(f.name, f.content)
	}
	if b.Hive > 0 {
		t.text("xgmi_device_id", fmt.Sprint(unique))
	}
}
