package openfiles

import (
	"bufio"
	"errors"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"

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
	theirs := sync.OnceValue(func() *mounts { return readMounts(p.scan.dir(p.pid, "mountinfo")) })
	lines := bufio.NewScanner(f)
	for lines.Scan() && !p.timedOut() {
		m, ok := parseMapping(lines.Text())
		if !ok {
			continue
		}
		device := p.scan.nodes.lookup(identity{dev: m.dev, ino: m.ino})
		if device == nil && (m.shared || strings.HasPrefix(m.path, "/dev/")) {
			device = p.resolveMapping(m, theirs())
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
//
// A look at a path of a file system whose server does not answer hangs. Such a file system has no device
// nodes, so dcm does not look there.
func (p *scanWorker) resolveMapping(m mapping, theirs *mounts) *node {
	if theirs.remote(m) {
		return nil
	}
	var st unix.Statx_t
	if unix.Statx(unix.AT_FDCWD, p.scan.dir(p.pid, "map_files/"+m.area), unix.AT_STATX_DONT_SYNC, unix.STATX_TYPE|unix.STATX_INO, &st) != nil &&
		!m.in(p.scan.dir(p.pid, "root"), &st) && (p.scan.mounts().remote(m) || !m.in("/", &st)) {
		return nil
	}
	return p.scan.nodes.lookup(identifyStatx(&st))
}

// in reports whether the mapping's path below root leads to the mapped file, and fills in st. It does not
// follow links, which could lead to another file system.
func (m mapping) in(root string, st *unix.Statx_t) bool {
	dir, err := unix.Open(root, unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		return false
	}
	defer unix.Close(dir)
	file, err := unix.Openat2(dir, strings.TrimPrefix(m.path, "/"), &unix.OpenHow{Flags: unix.O_PATH | unix.O_CLOEXEC, Resolve: unix.RESOLVE_NO_SYMLINKS})
	if err != nil {
		return false
	}
	defer unix.Close(file)
	return unix.Statx(file, "", unix.AT_EMPTY_PATH|unix.AT_STATX_DONT_SYNC, unix.STATX_TYPE|unix.STATX_INO, st) == nil &&
		unix.Mkdev(st.Dev_major, st.Dev_minor) == m.dev && st.Ino == m.ino
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
