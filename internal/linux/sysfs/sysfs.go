// Package sysfs reads and writes attributes: short files of sysfs, procfs and similar file systems,
// each with one system call. It knows no particular attribute.
package sysfs

import (
	"context"
	"io"
	"io/fs"
	"runtime"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"
)

// Sizes of attributes in bytes. Most attributes fit into one page (attributeSize). Files of the KFD
// topology and of /proc may be longer; a file above attributeLimit is an error.
const (
	attributeSize  = 4 << 10
	attributeLimit = 64 << 10
)

// Read returns the text of an attribute, escaped and trimmed.
func Read(path string) (string, error) { return anywhere.Read(path) }

// Bytes returns an attribute's content.
func Bytes(path string) ([]byte, error) {
	return anywhere.read(path, make([]byte, 0, attributeSize))
}

// Optional is like [Read], but returns "" if the attribute does not exist.
func Optional(path string) (string, error) { return anywhere.Optional(path) }

// Write writes an attribute with exactly one write(2), since the driver makes a change for each write.
// os.File may split a write.
func Write(path, value string) error {
	fd, err := anywhere.open(path, unix.O_WRONLY)
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

// Link returns the last element of a symbolic link's target, "" if there is no link.
func Link(path string) (string, error) { return anywhere.Link(path) }

// Names returns the names in a directory, unsorted. Unlike os.ReadDir it makes no system call for each
// entry, since an inspection of a node lists hundreds of directories.
func Names(dir string) ([]string, error) { return NamesAt(anywhere, dir) }

// NamesAt is [Names] for a path relative to d.
func NamesAt(d Dir, rel string) ([]string, error) {
	below, err := d.Open(rel)
	if err != nil {
		return nil, err
	}
	defer below.Close()
	return NamesIn(below)
}

// NamesIn is [Names] for an open directory. It must be called only once for a Dir.
func NamesIn(d Dir) ([]string, error) {
	buf := make([]byte, 8<<10)
	var names []string
	for {
		n, err := unix.ReadDirent(d.fd, buf)
		switch {
		case err == unix.EINTR:
			continue
		case err != nil:
			return nil, &fs.PathError{Op: "readdirent", Path: d.path, Err: err}
		case n == 0:
			return names, nil
		}
		_, _, names = unix.ParseDirent(buf[:n], -1, names)
	}
}

// ListDir opens a directory and returns its names, unsorted. The caller must close the directory.
func ListDir(path string) (Dir, []string, error) {
	dir, err := OpenDir(path)
	if err != nil {
		return dir, nil, err
	}
	names, err := NamesIn(dir)
	if err != nil {
		dir.Close()
	}
	return dir, names, err
}

// Numbers returns the names in a directory that are numbers.
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

// Number reads a numeric attribute, decimal or with the prefix 0x.
func Number(path string, bits int) (uint64, error) { return anywhere.Number(path, bits) }

// Each calls f for 0 to n-1, concurrently if n is large. An inspection of a node reads hundreds of
// files, and must be fast because clients may be stopped meanwhile.
func Each(n int, f func(i int)) {
	var next atomic.Int64
	work := func() {
		for i := int(next.Add(1)); i <= n; i = int(next.Add(1)) {
			f(i - 1)
		}
	}
	var others sync.WaitGroup
	for range min(runtime.GOMAXPROCS(0), maxWorkers, n/filesPerWorker) - 1 {
		others.Go(work)
	}
	work()
	others.Wait()
}

const (
	maxWorkers     = 4   // limits the load, since clients may run on the same processors
	filesPerWorker = 256 // for fewer files another goroutine saves no time
)

// Grace returns a context that ends d after ctx does. The caller must call cancel.
func Grace(ctx context.Context, d time.Duration) (_ context.Context, cancel context.CancelFunc) {
	late, end := context.WithCancel(context.WithoutCancel(ctx))
	stop := context.AfterFunc(ctx, func() { time.AfterFunc(d, end) })
	return late, func() { stop(); end() }
}

// Within returns the result of f, or the error of ctx when ctx ends first. A system call into a
// hanging driver cannot be interrupted. In that case f continues in its goroutine, which occupies a
// thread, until the driver returns or the process ends.
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
