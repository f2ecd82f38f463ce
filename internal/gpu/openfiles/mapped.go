package openfiles

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
// node itself. A node made elsewhere, as for a container, is another inode, and is known
// by its number alone.
func (p *scanWorker) scanMappings() {
	f, err := os.Open(p.dir(p.pid, "maps"))
	if err != nil {
		return
	}
	defer f.Close()
	lines := bufio.NewScanner(f)
	for lines.Scan() && !p.timedOut() {
		m, ok := parseMapping(lines.Text())
		if !ok {
			continue
		}
		device := p.nodes.lookup(identity{dev: m.dev, ino: m.ino})
		if device == nil && (m.shared || strings.HasPrefix(m.path, "/dev/")) {
			device = p.resolveMapping(m)
		}
		if device != nil && !slices.ContainsFunc(p.files, func(u openFile) bool { return u.device == device.name }) {
			p.files = append(p.files, openFile{p.pid, -1, device.name, device.weight})
		}
	}
}

// mapped looks the file up that a mapping is of. What /proc/PID/map_files leads to is it
// for certain, and is for those with CAP_CHECKPOINT_RESTORE alone, which no unit of dcm's
// has; what has its name and inode in the process's own root, or in this one, for all that
// may trace the process. One whose node was removed since is left to the driver's count.
func (p *scanWorker) resolveMapping(m mapping) *node {
	var st unix.Stat_t
	if unix.Stat(p.dir(p.pid, "map_files/"+m.area), &st) != nil && !m.matches(p.dir(p.pid, "root"+m.path), &st) && !m.matches(m.path, &st) {
		return nil
	}
	return p.nodes.lookup(identify(&st))
}

// is tells whether a path leads to what is mapped, and what that is.
func (m mapping) matches(path string, st *unix.Stat_t) bool {
	return unix.Stat(path, st) == nil && st.Dev == m.dev && st.Ino == m.ino
}

// mapping is a line of /proc/PID/maps (proc_pid_maps(5)) that has a file.
type mapping struct {
	area, path string
	shared     bool
	dev, ino   uint64
}

func parseMapping(line string) (mapping, bool) {
	fields := strings.Fields(line)
	if len(fields) < 6 || !strings.HasPrefix(fields[5], "/") {
		return mapping{}, false
	}
	m := mapping{area: fields[0], path: fields[5], shared: strings.HasSuffix(fields[1], "s")}
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
