// Package attr reads and writes the attributes of the kernel's file systems: small
// texts, each in one system call. It knows none of them.
package attr

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"sync"
	"sync/atomic"

	"golang.org/x/sys/unix"

	"dcm/internal/foreign"
)

// An attribute is at most a page; the topology's files and /proc's stay below
// this too. What is longer is no such file.
const (
	attributeSize  = 4 << 10
	attributeLimit = 64 << 10
)

// Dir is a directory that stays open while many attributes below it are read: the way
// to it is long, and goes by links.
type Dir struct {
	path string
	fd   int
}

// OpenDir opens a directory, to be closed.
func OpenDir(path string) (Dir, error) {
	fd, err := open(unix.AT_FDCWD, path, unix.O_RDONLY|unix.O_DIRECTORY)
	return Dir{path, fd}, err
}

// Close closes it.
func (d Dir) Close() { unix.Close(d.fd) }

// Path is the path of what is at rel below it.
func (d Dir) Path(rel string) string { return filepath.Join(d.path, rel) }

// Read is [Read] of what is at rel below it.
func (d Dir) Read(rel string) (string, error) {
	text, err := text(d.fd, rel)
	if at, ok := errors.AsType[*fs.PathError](err); ok {
		at.Path = d.Path(rel)
	}
	return text, foreign.Error(err)
}

// Read returns an attribute's text, escaped, without the space around it.
func Read(path string) (string, error) {
	text, err := text(unix.AT_FDCWD, path)
	return text, foreign.Error(err)
}

func text(dir int, path string) (string, error) {
	var page [attributeSize]byte // on the stack: a look at a node reads hundreds
	text, err := read(dir, path, page[:0])
	if err != nil {
		return "", err
	}
	return foreign.Lines(string(bytes.TrimSpace(text))), nil
}

// Bytes returns an attribute's content.
func Bytes(path string) ([]byte, error) {
	return read(unix.AT_FDCWD, path, make([]byte, 0, attributeSize))
}

// read goes by read(2) and not by os.File, whose poller takes EAGAIN from an
// attribute for "not yet" and waits. It begins with buf, which is empty.
func read(dir int, path string, buf []byte) ([]byte, error) {
	fd, err := open(dir, path, unix.O_RDONLY)
	if err != nil {
		return nil, err
	}
	defer unix.Close(fd)
	for {
		if len(buf) == cap(buf) {
			buf = append(buf, 0)[:len(buf)]
		}
		n, err := unix.Read(fd, buf[len(buf):cap(buf)])
		switch {
		case err == unix.EINTR:
			continue
		case err != nil:
			return nil, &fs.PathError{Op: "read", Path: path, Err: err}
		case n == 0:
			return buf, nil
		case len(buf)+n > attributeLimit:
			return nil, &fs.PathError{Op: "read", Path: path, Err: unix.EFBIG}
		}
		buf = buf[:len(buf)+n]
	}
}

// Optional is [Read] for an attribute that need not be there: that one is "".
func Optional(path string) (string, error) {
	text, err := Read(path)
	if errors.Is(err, fs.ErrNotExist) {
		return "", nil
	}
	return text, err
}

// Write hands value to an attribute in exactly one write(2): the driver acts on
// each, so that a library's silent second one would be a second change.
func Write(path, value string) error {
	fd, err := open(unix.AT_FDCWD, path, unix.O_WRONLY)
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	n, err := unix.Write(fd, []byte(value))
	if err == nil && n < len(value) {
		err = io.ErrShortWrite
	}
	if err != nil {
		return &fs.PathError{Op: "write", Path: path, Err: err}
	}
	return nil
}

func open(dir int, path string, how int) (int, error) {
	for {
		fd, err := unix.Openat(dir, path, how|unix.O_CLOEXEC, 0)
		if err == unix.EINTR {
			continue
		}
		if err != nil {
			return -1, &fs.PathError{Op: "open", Path: path, Err: err}
		}
		return fd, nil
	}
}

// Link returns the last element of what a symbolic link points to, "" if
// there is no link.
func Link(path string) (string, error) {
	target, err := os.Readlink(path)
	if errors.Is(err, fs.ErrNotExist) {
		return "", nil
	}
	if err != nil {
		return "", err
	}
	return foreign.Text(filepath.Base(target)), nil
}

// Names lists a directory, in no order. It takes no more system calls than that: a
// look at a node lists hundreds.
func Names(dir string) ([]string, error) {
	d, err := OpenDir(dir)
	if err != nil {
		return nil, err
	}
	defer d.Close()
	return NamesIn(d)
}

// NamesIn is [Names] of a directory that is open, once.
func NamesIn(dir Dir) ([]string, error) {
	buf := make([]byte, 8<<10)
	var names []string
	for {
		n, err := unix.ReadDirent(dir.fd, buf)
		switch {
		case err == unix.EINTR:
			continue
		case err != nil:
			return nil, &fs.PathError{Op: "readdirent", Path: dir.path, Err: err}
		case n == 0:
			return names, nil
		}
		_, _, names = unix.ParseDirent(buf[:n], -1, names)
	}
}

// Numbers lists those entries of a directory that are numbers.
func Numbers(dir string) ([]int, error) {
	names, err := Names(dir)
	var out []int
	for _, name := range names {
		if v, err := strconv.Atoi(name); err == nil {
			out = append(out, v)
		}
	}
	return out, err
}

// Number reads an attribute that is one number, decimal or with 0x.
func Number(path string, bits int) (uint64, error) {
	text, err := Read(path)
	if err != nil {
		return 0, err
	}
	v, err := strconv.ParseUint(text, 0, bits)
	if err != nil {
		return 0, fmt.Errorf("%s holds %q, not a number of %d bits", path, text, bits)
	}
	return v, nil
}

// Each calls f for 0 to n-1, on as many processors as there are: a look at a node reads
// hundreds of files, and clients may be down meanwhile.
func Each(n int, f func(i int)) {
	var next atomic.Int64
	work := func() {
		for i := int(next.Add(1)); i <= n; i = int(next.Add(1)) {
			f(i - 1)
		}
	}
	var others sync.WaitGroup
	for range min(runtime.GOMAXPROCS(0), most, n) - 1 {
		others.Go(work)
	}
	work()
	others.Wait()
}

// most is how many processors a look may have: it is not what the host is for.
const most = 4

// Within returns what f returns, or ctx's error as soon as ctx ends. A system
// call into a hung driver cannot be taken back: then f is left to itself, with
// its goroutine and thread, until the driver lets go of it or the process ends.
func Within[T any](ctx context.Context, f func() (T, error)) (T, error) {
	type result struct {
		v   T
		err error
	}
	var none T
	if err := ctx.Err(); err != nil {
		return none, err
	}
	done := make(chan result, 1)
	go func() {
		v, err := f()
		done <- result{v, err}
	}()
	select {
	case r := <-done:
		return r.v, r.err
	case <-ctx.Done():
		return none, ctx.Err()
	}
}
