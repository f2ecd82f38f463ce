package opened

import (
	"bufio"
	"fmt"
	"os"
	"slices"
	"strings"

	"golang.org/x/sys/unix"
)

// mappings looks at what the process has mapped: a mapping holds the device when the
// file it was made of is long closed. /proc/PID/maps names device and inode of the
// node itself. What /proc/PID/map_files leads to is known by its number too, for
// nodes made elsewhere, but only to those with CAP_CHECKPOINT_RESTORE.
func (p *prober) mappings() {
	f, err := os.Open(p.dir(p.pid, "maps"))
	if err != nil {
		return
	}
	defer f.Close()
	lines := bufio.NewScanner(f)
	for lines.Scan() && !p.over() {
		m, ok := parseMapping(lines.Text())
		if !ok {
			continue
		}
		device, ok := p.nodes.known[identity{dev: m.dev, ino: m.ino}]
		if !ok && strings.HasPrefix(m.path, "/dev/") {
			device, ok = p.mapped(m.area)
		}
		if ok && !slices.ContainsFunc(p.uses, func(u use) bool { return u.device == device.name }) {
			p.uses = append(p.uses, use{p.pid, -1, device.name, device.weight})
		}
	}
}

func (p *prober) mapped(area string) (node, bool) {
	var st unix.Stat_t
	if unix.Stat(p.dir(p.pid, "map_files/"+area), &st) != nil {
		return node{}, false
	}
	device, ok := p.nodes.known[identify(&st)]
	return device, ok
}

// mapping is a line of /proc/PID/maps (proc_pid_maps(5)) that has a file.
type mapping struct {
	area, path string
	dev, ino   uint64
}

func parseMapping(line string) (mapping, bool) {
	fields := strings.Fields(line)
	if len(fields) < 6 || !strings.HasPrefix(fields[5], "/") {
		return mapping{}, false
	}
	m := mapping{area: fields[0], path: fields[5]}
	var major, minor uint32
	if _, err := fmt.Sscanf(fields[3], "%x:%x", &major, &minor); err != nil {
		return mapping{}, false
	}
	if _, err := fmt.Sscanf(fields[4], "%d", &m.ino); err != nil {
		return mapping{}, false
	}
	m.dev = unix.Mkdev(major, minor)
	return m, true
}
