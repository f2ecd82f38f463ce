package sim

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/hanwen/go-fuse/v2/fuse"
)

// face is what the mounted tree has in common.
type face struct {
	node  *Node
	since time.Time

	mu      sync.Mutex
	closing map[*Handle]bool
	changed chan struct{} // closed when closing shrinks
}

func newFace(n *Node) *face {
	return &face{node: n, since: time.Now(), closing: make(map[*Handle]bool), changed: make(chan struct{})}
}

// attributes are those of sysfs: root's, and of one page.
func (f *face) attributes(e *Entry, out *fuse.Attr) {
	out.Mode = e.Mode
	out.Nlink = 1
	out.Size = 4096
	if e.Target != "" {
		out.Size = uint64(len(e.Target))
	}
	out.SetTimes(&f.since, &f.since, &f.since)
}

// known is how long the kernel may go by the attributes that it got: those of
// directories and links are the same while there are any.
func (f *face) known(e *Entry) time.Duration {
	if kind := e.Mode & syscall.S_IFMT; kind == syscall.S_IFDIR || kind == syscall.S_IFLNK {
		return forGood
	}
	return f.node.opts.Cache
}

// lasts is how long the kernel may go by there being something at the path: the
// directories that lead to the devices are there in every state of the node.
func (f *face) lasts(name string, otherwise time.Duration) time.Duration {
	switch name {
	case "ctl", "dev", "sys", "sys/bus", "sys/bus/pci", "sys/bus/pci/devices", "sys/class", "sys/devices", "sys/devices/platform":
		return forGood
	}
	if bridge, ok := strings.CutPrefix(name, "sys/devices/pci"); ok && !strings.Contains(bridge, "/") {
		return forGood
	}
	return otherwise
}

const forGood = 24 * time.Hour

// process is the process that a request comes from. The kernel tells the
// thread, as it is numbered where the node was mounted.
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

// The kernel reports the last close(2) only some time after it returned, while
// it waits with each close(2) until it is known as a flush. Whoever closes a
// device and writes a mode next would get EBUSY by chance. So a write waits
// for the devices of which something was closed.

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

// drain waits until every device of which a descriptor was closed is closed. It
// gives up soon: another descriptor may be open still.
func (f *face) drain(ctx context.Context) {
	const patience = 100 * time.Millisecond
	ctx, cancel := context.WithTimeout(ctx, patience)
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
