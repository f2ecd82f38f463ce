package sim

import (
	"fmt"
	"slices"
)

const drmMajor = 226

// drm reports whether the module drm is loaded. In Debian's kernel drm is a module, which modprobe -r
// unloads with the last module that uses it. The caller holds n.mu.
func drm(n *Node) bool {
	return n.module != absent ||
		slices.ContainsFunc(n.boards, func(b *board) bool { return b.bound && !b.Chip.AMD() && registered(n, b) })
}

// addDRM adds the files of a bound board's DRM devices outside of its own directory, and the platform
// devices of its further partitions. The numbers of these begin at xcp. It returns the next number.
func addDRM(n *Node, t tree, b *board, xcp int) int {
	for p := range xcps {
		minors := minorsOf(n, b, p)
		if len(minors) == 0 {
			break
		}
		dir := "sys/" + pciPath(b.Address)
		if p > 0 {
			dir = addXCP(t, minors, xcp, func(t tree) { addPartMetrics(n, t, b, p) })
			xcp++
		}
		for _, m := range minors {
			t.link("sys/class/drm/"+m.name, dir+"/drm/"+m.name)
			t.link(fmt.Sprintf("sys/dev/char/%d:%d", drmMajor, m.number), dir+"/drm/"+m.name)
		}
	}
	return xcp
}

// addXCP adds the platform device of a further partition (amdgpu_xcp_drv.c: amdgpu_xcp_drm_dev_alloc).
func addXCP(t tree, minors []minor, number int, own func(tree)) string {
	name := fmt.Sprintf("amdgpu_xcp_%d", number)
	dir := "sys/devices/platform/" + name
	t.lazy(dir, func(t tree) {
		t["subsystem"] = link(dir+"/subsystem", "sys/bus/platform")
		t["modalias"] = file(0o444, "platform:"+name)
		t["uevent"] = uevent("MODALIAS=platform:" + name)
		addMinors(t.dir("drm"), dir, minors)
		own(t)
	})
	t.link("sys/bus/platform/devices/"+name, dir)
	return dir
}

// addMinors adds the DRM minors of a device to its drm directory.
func addMinors(t tree, device string, minors []minor) {
	for _, m := range minors {
		dir := device + "/drm/" + m.name
		t.lazy(m.name, func(t tree) {
			t["dev"] = file(0o444, fmt.Sprintf("%d:%d", drmMajor, m.number))
			t["device"] = link(dir+"/device", device)
			t["subsystem"] = link(dir+"/subsystem", "sys/class/drm")
			t["uevent"] = uevent(fmt.Sprintf("MAJOR=%d\nMINOR=%d\nDEVNAME=dri/%s\nDEVTYPE=drm_minor\n", drmMajor, m.number, m.name))
		})
	}
}
