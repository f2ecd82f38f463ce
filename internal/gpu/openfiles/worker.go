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

	"dcm/internal/linux/sysfs"
)

// scanWorker looks at one process.
type scanWorker struct {
	*Scan
	result
	ctx      context.Context
	deadline time.Time
	checks   int
	buf      []byte
	names    []string
	link     [256]byte
}

// process looks at one process: at its open files, at those of its threads that
// have others, and, if that is asked for, at what it has mapped.
func (p *scanWorker) scanProcess(pid int) result {
	p.result, p.deadline, p.checks = result{pid: pid}, time.Now().Add(p.perProcess), 0
	if p.scanFiles(pid, p.dir(pid, "fd")); !p.deferred {
		p.scanThreads()
	}
	switch {
	case p.deferred:
		return result{pid: pid, deferred: true}
	case p.withMappings:
		p.scanMappings()
	}
	return p.result
}

// over tells that the process has had its time; that is looked at now and then.
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

// files looks at a table of open files. A process that ended meanwhile has none.
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

// file judges one open file by what it is and not by its name: the node may be
// mounted or made anywhere, under any name, in whatever mount namespace.
//
// Nobody is asked for that: the server of a network or a user's file system may
// not answer. Such a file system may also keep root out, and has no devices then.
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
	device := p.nodes.lookup(id)
	if device == nil {
		device = p.nodes.lookupRemoved(id, func() string { return fdinfo(path, name) })
	}
	if device == nil || isPathOnly(dir, path, name) {
		return
	}
	number, _ := strconv.Atoi(name)
	p.files = append(p.files, openFile{task, number, device.name, device.weight})
}

// anonymous looks at a file that has no node: a driver may make some.
func (p *scanWorker) inspectAnonymous(task, dir int, name string) {
	size, err := unix.Readlinkat(dir, name, p.link[:])
	if err != nil {
		return
	}
	for begin, device := range p.nodes.anonymous {
		if bytes.HasPrefix(p.link[:size], []byte(begin)) {
			number, _ := strconv.Atoi(name)
			p.files = append(p.files, openFile{task, number, device, 1})
		}
	}
}

// threads looks at the open files of those threads that have not the same as their
// process; of a process whose first thread has ended all of them are such.
func (p *scanWorker) scanThreads() {
	dir := p.dir(p.pid, "task")
	const alone = 3 // links of the directory: two, and one a thread
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

// onlyPath tells whether the file was opened with O_PATH, which needs no right to
// the device and does not open it. Such a link has no permission bits, and then
// fdinfo tells for certain.
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

// fdinfo returns the text of /proc/PID/fdinfo/FD, "" if it cannot be read. path is the
// directory of the process's open files.
func fdinfo(path, name string) string {
	text, err := sysfs.Optional(filepath.Join(filepath.Dir(path), "fdinfo", name))
	if err != nil {
		return ""
	}
	return text
}

// kcmp(2) has no wrapper. The kernel has it wherever there is DRM (CONFIG_KCMP).
const (
	kcmpFile  = 0
	kcmpFiles = 2
)

// sameFiles tells whether two threads share their table of open files; not where
// the kernel does not tell.
func sameFiles(a, b int) bool {
	r, _, errno := unix.Syscall6(unix.SYS_KCMP, uintptr(a), uintptr(b), kcmpFiles, 0, 0, 0)
	return errno == 0 && r == 0
}

// compareFiles orders descriptors by the open files behind them: 0 is one open file,
// as after fork(2). Two that the kernel does not compare are two.
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
	// Of a device a process has one mapping at most.
	return cmp.Or(cmp.Compare(a.pid, b.pid), cmp.Compare(a.fd, b.fd))
}
