package openfiles

import (
	"bytes"
	"cmp"
	"context"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"dcm/internal/linux/procstat"
	"dcm/internal/linux/sysfs"
)

// scanWorker inspects processes, one at a time.
type scanWorker struct {
	scan *Scan
	result
	ctx      context.Context
	deadline time.Time
	checks   int
	buf      []byte
	names    []string
	link     [256]byte
}

// scanProcess inspects the open files of a process, those of threads with their own table,
// and its mappings if withMappings is set.
func (p *scanWorker) scanProcess(pid int) result {
	p.result, p.deadline, p.checks = result{pid: pid}, time.Now().Add(p.scan.perProcess), 0
	if p.scanFiles(pid, p.scan.dir(pid, "fd")); !p.deferred {
		p.scanThreads()
	}
	switch {
	case p.deferred:
		return result{pid: pid, deferred: true}
	case p.scan.withMappings:
		p.scanMappings()
	}
	if len(p.files) > 0 {
		p.started = procstat.Read(p.scan.dir(pid, ""), procstat.StartTime)
	}
	return p.result
}

// timedOut reports whether the time of the process is over. It reads the clock at every 64th
// call.
func (p *scanWorker) timedOut() bool {
	const often = 64
	if p.checks++; p.checks%often != 0 {
		return false
	}
	if p.ctx.Err() == nil && time.Now().Before(p.deadline) {
		return false
	}
	p.reason = reasonTimeout
	return true
}

// scanFiles inspects a table of open files. A process that has ended has none.
func (p *scanWorker) scanFiles(task int, dir string) {
	fd, err := unix.Open(dir, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		p.noteDenied(err)
		return
	}
	defer unix.Close(fd)
	for {
		size, err := unix.ReadDirent(fd, p.buf)
		if err != nil || size == 0 {
			p.noteDenied(err)
			return
		}
		_, _, p.names = unix.ParseDirent(p.buf[:size], -1, p.names[:0])
		if len(p.buf) <= smallChunk && size > smallChunk/2 {
			p.deferred = true
			return
		}
		for _, name := range p.names {
			if p.timedOut() {
				return
			}
			p.inspectFile(task, fd, dir, name)
		}
	}
}

// inspectFile identifies an open file by its device number, since a node may exist under any
// name in any mount namespace.
//
// AT_STATX_DONT_SYNC avoids a request to the server of a network or FUSE file system, which
// may hang. Such a file system may deny root access, and has no device nodes.
func (p *scanWorker) inspectFile(task, dir int, path, name string) {
	var st unix.Statx_t
	err := unix.Statx(dir, name, unix.AT_STATX_DONT_SYNC, unix.STATX_TYPE|unix.STATX_INO, &st)
	switch {
	case err == unix.EACCES && unix.Statx(dir, name, unix.AT_STATX_DONT_SYNC, 0, &st) == nil:
		return
	case err != nil:
		p.noteDenied(err)
		return
	case st.Mode&unix.S_IFMT == 0:
		p.inspectAnonymous(task, dir, name)
		return
	}
	id := identifyStatx(&st)
	device := p.scan.nodes.lookup(id)
	if device == nil {
		device = p.scan.nodes.lookupRemoved(id, func() string { return fdinfo(path, name) })
	}
	if device == nil || isPathOnly(dir, path, name) {
		return
	}
	number, _ := strconv.Atoi(name)
	p.files = append(p.files, openFile{task, number, device.name, device.weight})
}

// inspectAnonymous inspects a file without a node, which a driver may have created.
func (p *scanWorker) inspectAnonymous(task, dir int, name string) {
	size, err := unix.Readlinkat(dir, name, p.link[:])
	if err != nil {
		return
	}
	for begin, device := range p.scan.nodes.anonymous {
		if bytes.HasPrefix(p.link[:size], []byte(begin)) {
			number, _ := strconv.Atoi(name)
			p.files = append(p.files, openFile{task, number, device, 1})
		}
	}
}

// scanThreads inspects the open files of threads that do not share the table of their
// process. If the first thread has ended, these are all threads.
func (p *scanWorker) scanThreads() {
	dir := p.scan.dir(p.pid, "task")
	const alone = 3 // links of the directory: two, and one for each thread
	var st unix.Stat_t
	if err := unix.Stat(dir, &st); err != nil || st.Nlink <= alone {
		return
	}
	tids, err := sysfs.Numbers(dir)
	if err != nil {
		return
	}
	for _, tid := range tids {
		if p.timedOut() {
			return
		}
		if tid != p.pid && !sameFiles(p.pid, tid) {
			p.scanFiles(tid, filepath.Join(dir, strconv.Itoa(tid), "fd"))
		}
	}
}

func (p *scanWorker) noteDenied(err error) {
	if err == unix.EACCES || err == unix.EPERM {
		p.reason = reasonDenied
	}
}

// isPathOnly reports whether the file was opened with O_PATH, which needs no permission and
// does not open the device. Such a link has no permission bits; then fdinfo is read to
// confirm it.
func isPathOnly(dir int, path, name string) bool {
	var link unix.Stat_t
	if unix.Fstatat(dir, name, &link, unix.AT_SYMLINK_NOFOLLOW) != nil || link.Mode&0o777 != 0 {
		return false
	}
	for line := range strings.Lines(fdinfo(path, name)) {
		if octal, ok := strings.CutPrefix(line, "flags:"); ok {
			flags, err := strconv.ParseUint(strings.TrimSpace(octal), 8, 64)
			return err == nil && flags&unix.O_PATH != 0
		}
	}
	return false
}

// fdinfo returns the text of /proc/PID/fdinfo/FD, "" if it cannot be read. path is
// /proc/PID/fd.
func fdinfo(path, name string) string {
	text, err := sysfs.Optional(filepath.Join(filepath.Dir(path), "fdinfo", name))
	if err != nil {
		return ""
	}
	return text
}

// kcmp(2) has no wrapper. Kernels with DRM have it (CONFIG_KCMP).
const (
	kcmpFile  = 0
	kcmpFiles = 2
)

// sameFiles reports whether two threads share their table of open files; false if the kernel
// does not answer.
func sameFiles(a, b int) bool {
	r, _, errno := unix.Syscall6(unix.SYS_KCMP, uintptr(a), uintptr(b), kcmpFiles, 0, 0, 0)
	return errno == 0 && r == 0
}

// compareFiles orders descriptors by their open file description. 0 means the same one, as
// after fork(2). Descriptors that the kernel cannot compare differ.
func compareFiles(a, b openFile) int {
	if a.fd >= 0 && b.fd >= 0 {
		r, _, errno := unix.Syscall6(unix.SYS_KCMP, uintptr(a.pid), uintptr(b.pid), kcmpFile, uintptr(a.fd), uintptr(b.fd), 0)
		switch {
		case errno != 0:
		case r == 0:
			return 0
		case r == 1:
			return -1
		case r == 2:
			return 1
		}
	}
	// A process has at most one mapping of a device in the list.
	return cmp.Or(cmp.Compare(a.pid, b.pid), cmp.Compare(a.fd, b.fd))
}
