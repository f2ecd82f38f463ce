package sim

import (
	"context"
	"sync"
	"syscall"

	"github.com/hanwen/go-fuse/v2/fs"
	"github.com/hanwen/go-fuse/v2/fuse"
)

// openFile is an open file of sys or ctl. A read at offset 0 determines its content for the following
// reads, as in sysfs.
type openFile struct {
	inode *inode
	mu    sync.Mutex
	text  string
}

var (
	_ fs.FileReader = (*openFile)(nil)
	_ fs.FileWriter = (*openFile)(nil)
)

func (f *openFile) Read(ctx context.Context, dest []byte, off int64) (fuse.ReadResult, syscall.Errno) {
	text, err := f.content(ctx, off == 0)
	if err != nil {
		return nil, errno(err)
	}
	return part(text, dest, off), 0
}

func (f *openFile) content(ctx context.Context, fresh bool) (string, error) {
	if !fresh {
		f.mu.Lock()
		defer f.mu.Unlock()
		return f.text, nil
	}
	e, ok := f.inode.entry()
	if !ok {
		return "", syscall.ENODEV
	}
	text, err := e.read(ctx)
	if err != nil {
		return "", err
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.text = text
	return text, nil
}

// Write passes on each write(2) as a whole, at any offset.
func (f *openFile) Write(ctx context.Context, data []byte, _ int64) (uint32, syscall.Errno) {
	e, ok := f.inode.entry()
	if !ok || e.write == nil {
		return 0, syscall.ENODEV
	}
	f.inode.face.drain(ctx)
	if err := e.write(ctx, string(data)); err != nil {
		return 0, errno(err)
	}
	return uint32(len(data)), 0
}

// cachedFile is an open file with a content that never changes. A read may begin anywhere, since the kernel
// has cached other parts.
type cachedFile string

var _ fs.FileReader = cachedFile("")

func (f cachedFile) Read(_ context.Context, dest []byte, off int64) (fuse.ReadResult, syscall.Errno) {
	return part(string(f), dest, off), 0
}

// part returns what a read of a text at an offset returns.
func part(text string, dest []byte, off int64) fuse.ReadResult {
	if off >= int64(len(text)) {
		return fuse.ReadResultData(nil)
	}
	return fuse.ReadResultData(dest[:copy(dest, text[off:])])
}

// openDevice is an open device.
type openDevice struct {
	handle *Handle
	face   *face
}

var (
	_ fs.FileFlusher  = (*openDevice)(nil)
	_ fs.FileReleaser = (*openDevice)(nil)
)

// Flush is called for each close(2), not only for that of the last descriptor.
func (d *openDevice) Flush(context.Context) syscall.Errno {
	d.face.flushed(d.handle)
	return 0
}

// Release is called for the last close(2).
func (d *openDevice) Release(context.Context) syscall.Errno {
	d.handle.Close()
	d.face.released(d.handle)
	return 0
}
