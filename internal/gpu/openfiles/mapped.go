package openfiles

import (
	"bufio"
	"errors"
	"os"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// scanMappings finds mapped nodes. A mapping holds the device after its file is closed.
// /proc/PID/maps has device and inode of the node. A node elsewhere, for example in a
// container, has another inode and is known by its device number only.
func (p *scanWorker) scanMappings() {
	f, err := os.Open(p.scan.dir(p.pid, "maps"))
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
		device := p.scan.nodes.lookup(identity{dev: m.dev, ino: m.ino})
		if device == nil && (m.shared || strings.HasPrefix(m.path, "/dev/")) {
			device = p.resolveMapping(m)
		}
		if device != nil && !slices.ContainsFunc(p.files, func(u openFile) bool { return u.device == device.name }) {
			p.files = append(p.files, openFile{p.pid, -1, device.name, device.weight})
		}
	}
}

// resolveMapping returns the node of a mapping. /proc/PID/map_files is exact but needs
// CAP_CHECKPOINT_RESTORE, which no unit of dcm has. Otherwise the path must lead to the same
// inode in the root of the process or of dcm. If the node was removed, only the driver's use
// count shows the mapping.
func (p *scanWorker) resolveMapping(m mapping) *node {
	var st unix.Stat_t
	if unix.Stat(p.scan.dir(p.pid, "map_files/"+m.area), &st) != nil && !m.matches(p.scan.dir(p.pid, "root"+m.path), &st) && !m.matches(m.path, &st) {
		return nil
	}
	return p.scan.nodes.lookup(identify(&st))
}

// matches reports whether path leads to the mapped file, and fills in st.
func (m mapping) matches(path string, st *unix.Stat_t) bool {
	return unix.Stat(path, st) == nil && st.Dev == m.dev && st.Ino == m.ino
}

// mapping is a line of /proc/PID/maps with a file (proc_pid_maps(5)).
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
	high, low, _ := strings.Cut(fields[3], ":")
	major, err1 := strconv.ParseUint(high, 16, 32)
	minor, err2 := strconv.ParseUint(low, 16, 32)
	ino, err3 := strconv.ParseUint(fields[4], 10, 64)
	m.dev, m.ino = unix.Mkdev(uint32(major), uint32(minor)), ino
	return m, errors.Join(err1, err2, err3) == nil
}
