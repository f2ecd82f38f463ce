package sim

import (
	"context"
	"fmt"
	"strconv"
	"syscall"
)

// addSys adds /sys. The caller of addSys and of the functions that it calls holds n.mu. The contents of
// files are made later, without the lock.
func addSys(n *Node, t tree) {
	for _, f := range static(n.kind) {
		t.text("sys/"+f.name, f.content)
	}
	for _, d := range []string{"sys/bus/pci/drivers", "sys/bus/platform/devices", "sys/dev/block", "sys/dev/char", "sys/devices/system", "sys/devices/virtual", "sys/module"} {
		t.dir(d)
	}
	if drm(n) {
		t.text("sys/class/drm/version", "drm 1.1.0 20060810")
	}
	xcp := 0
	for _, b := range n.boards {
		addPort(t, b)
		if b.vanished {
			continue
		}
		addPCI(n, t, b)
		if b.bound {
			xcp = addDRM(n, t, b, xcp)
		}
	}
	addModule(n, t)
	addNVIDIAModule(n, t)
	if n.module == live {
		addKFD(n, t)
	}
}

type staticFile struct{ name, content string }

// static adds the files below /sys that never change. Add files here that a new reader of the tree needs.
func static(k Kind) []staticFile {
	const cores = 96 // per socket
	out := []staticFile{
		{"devices/system/cpu/online", fmt.Sprintf("0-%d", cores*k.CPUs-1)},
		{"devices/system/cpu/possible", fmt.Sprintf("0-%d", cores*k.CPUs-1)},
		{"devices/system/cpu/present", fmt.Sprintf("0-%d", cores*k.CPUs-1)},
		{"devices/system/node/online", fmt.Sprintf("0-%d", k.CPUs-1)},
		{"devices/system/node/possible", fmt.Sprintf("0-%d", k.CPUs-1)},
	}
	for i := range k.CPUs {
		dir := fmt.Sprintf("devices/system/node/node%d/", i)
		out = append(out,
			staticFile{dir + "cpulist", cpuList(i)},
			staticFile{dir + "distance", distances(i, k.CPUs)},
		)
	}
	return out
}

func cpuList(node int) string { return fmt.Sprintf("%d-%d", node*96, node*96+95) }

func distances(node, nodes int) string {
	var out string
	for i := range nodes {
		d := 32
		if i == node {
			d = 10
		}
		out += strconv.Itoa(d) + " "
	}
	return out[:len(out)-1]
}

// uevent returns a device's uevent file. udev writes to it; here that has no effect.
func uevent(content string) *Entry {
	e := file(0o644, content)
	e.write = func(context.Context, string) error { return nil }
	return e
}

// attribute returns a sysfs file whose content is made at each read.
func attribute(permissions uint32, read func(context.Context) (string, error)) *Entry {
	return &Entry{Mode: syscall.S_IFREG | permissions, read: read}
}
