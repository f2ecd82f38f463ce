package sim

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"strconv"
	"sync"
	"time"

	"github.com/hanwen/go-fuse/v2/fuse"
)

// face is the common state of all inodes of a mounted tree.
type face struct {
	node  *Node
	since time.Time

	mu      sync.Mutex
	closing map[*Handle]bool
	changed chan struct{} // closed when an entry is removed from closing
}

func newFace(n *Node) *face {
	return &face{node: n, since: time.Now(), closing: make(map[*Handle]bool), changed: make(chan struct{})}
}

// attributes sets the attributes as in sysfs: the owner is root, and the size is one page. A content that
// the kernel caches needs its true size, or zeros would follow it.
func (f *face) attributes(e *Entry, out *fuse.Attr) {
	out.Mode = e.Mode
	out.Nlink = 1
	out.Size = 4096
	switch {
	case e.Target != "":
		out.Size = uint64(len(e.Target))
	case e.content != nil:
		out.Size = uint64(len(*e.content))
	}
	out.SetTimes(&f.since, &f.since, &f.since)
}

// process returns the PID of the caller. The kernel reports the thread ID in the PID namespace of the
// mount.
func (f *face) process(ctx context.Context) int {
	caller, ok := fuse.FromContext(ctx)
	if !ok {
		return 0
	}
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", caller.Pid))
	if err != nil {
		return int(caller.Pid)
	}
	for line := range bytes.Lines(status) {
		if text, ok := bytes.CutPrefix(line, []byte("Tgid:")); ok {
			if pid, err := strconv.Atoi(string(bytes.TrimSpace(text))); err == nil {
				return pid
			}
		}
	}
	return int(caller.Pid)
}

// The kernel reports the last close(2) of a file some time after the call has returned. A program that
// closes a device and then writes a mode could get EBUSY because of that. But close(2) itself waits
// for a flush message. So a write waits until all devices with a flush are closed.

func (f *face) flushed(h *Handle) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.closing[h] = true
}

func (f *face) released(h *Handle) {
	f.mu.Lock()
	defer f.mu.Unlock()
	delete(f.closing, h)
	close(f.changed)
	f.changed = make(chan struct{})
}

// drain waits until every device with a flush is closed. It gives up after a short time, since the
// flush may not have been for the last descriptor.
func (f *face) drain(ctx context.Context) {
	const drainTimeout = 100 * time.Millisecond
	ctx, cancel := context.WithTimeout(ctx, drainTimeout)
	defer cancel()
	for {
		f.mu.Lock()
		left, changed := len(f.closing), f.changed
		f.mu.Unlock()
		if left == 0 {
			return
		}
		select {
		case <-changed:
		case <-ctx.Done():
			f.mu.Lock()
			clear(f.closing)
			f.mu.Unlock()
			return
		}
	}
}
