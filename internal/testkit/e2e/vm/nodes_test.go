package vm_test

import (
	"encoding/json"
	"fmt"
	"path"
	"strings"

	"dcm/internal/frontends/status"
)

// falseNode: a program that opens /dev/kfd with O_CREAT before the driver is loaded creates a regular file.
// dcm reports it, and the commands of its hint repair it.
func falseNode(m machine) {
	m.run("systemctl stop " + clients + " && " + unloadDriver)
	m.run(": >>/dev/kfd && modprobe amdgpu && test -f /dev/kfd")
	if r := m.try("dcm check"); !strings.Contains(r.Stderr, "/dev/kfd") {
		m.t.Errorf("dcm check does not name the file:\n%s%s", r.Stdout, r.Stderr)
	}
	if r := m.try("dcm status --json"); !strings.Contains(r.Stdout, `"`+string(status.Nodeless)+`"`) {
		m.t.Errorf("dcm status does not have the problem %s:\n%s%s", status.Nodeless, r.Stdout, r.Stderr)
	}
	m.run("rm /dev/kfd && " + unloadDriver + " && modprobe amdgpu && test -c /dev/kfd")
	if r := m.try("dcm check"); strings.Contains(r.Stderr, "/dev/kfd") {
		m.t.Errorf("dcm check names a file that is gone:\n%s", r.Stderr)
	}
}

// scatteredMinors: after GPUs were bound in another order, dcm reports the right node of each partition, and
// a lease opens the nodes of its partitions.
func scatteredMinors(m machine) {
	m.run(`printf '[profiles.split]\nmemory = "NPS1"\ncompute = "CPX"\n' >>/etc/dcm/dcm.toml`)
	m.use("split")
	m.run("systemctl stop " + clients)
	m.run(`cd /sys/bus/pci/drivers/amdgpu && for gpu in 0000:05:00.0 0000:26:00.0; do echo $gpu >unbind; done &&
		for gpu in 0000:26:00.0 0000:05:00.0; do echo $gpu >bind; done`)
	m.restored("", "2 CPX 2 NPS1")
	var parts []struct {
		Name       string
		GPU        string
		Index      int
		RenderNode string `json:"render_node"`
	}
	if err := json.Unmarshal([]byte(m.run("dcm partitions --json")), &parts); err != nil {
		m.t.Fatal(err)
	}
	if len(parts) != 16 || parts[0].RenderNode != "/dev/dri/renderD136" {
		m.t.Errorf("partitions are %+v; want 16, and the minors in another order than the GPUs", parts)
	}
	node := make(map[string]string)
	for _, p := range parts {
		node[p.Name] = p.RenderNode
		device := p.GPU
		if p.Index > 0 {
			device = fmt.Sprintf("amdgpu_xcp_%d", map[string]int{"0000:05:00.0": 0, "0000:26:00.0": 7}[p.GPU]+p.Index-1)
		}
		if got := path.Base(m.run("readlink -f /sys/class/drm/" + path.Base(p.RenderNode) + "/device")); got != device {
			m.t.Errorf("%s has %s of %s, want that of %s", p.Name, p.RenderNode, got, device)
		}
	}
	for range 2 {
		text := m.run(`dcm run -n 3 -- sh -c 'for node in /dev/dri/renderD*; do (exec 3<>$node) 2>/dev/null && echo $node; done' | sort | xargs`)
		if strings.Count(text, "renderD") != 3 {
			m.t.Errorf("a lease of 3 partitions opens %s", text)
		}
	}
}
