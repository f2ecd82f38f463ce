package leasesoak

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"time"

	"golang.org/x/sys/unix"

	"dcm/internal/linux/unitname"
)

// probeInterval is the time between two attempts to open all nodes without a lease.
const probeInterval = 10 * time.Millisecond

// probe opens all nodes repeatedly without a lease until ctx ends. A node of an exclusive lease
// must not open.
func probe(ctx context.Context, c *clients) {
	pace := time.NewTicker(probeInterval)
	defer pace.Stop()
	for {
		nodes, _ := filepath.Glob("/dev/dri/renderD*") // the pattern is well formed
		for _, node := range nodes {
			began := time.Now()
			fd, err := unix.Open(node, unix.O_RDWR|unix.O_CLOEXEC|unix.O_NONBLOCK, 0)
			if err == nil {
				unix.Close(fd)
			}
			if err == nil || errors.Is(err, unix.ENXIO) {
				opened(c, node, began)
			}
		}
		select {
		case <-pace.C:
		case <-ctx.Done():
			return
		}
	}
}

// opened checks that a node that has opened belongs to no exclusive lease that was granted
// before. A holder that is alive now was alive then.
func opened(c *clients, node string, began time.Time) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, p := range c.all {
		if !isClosed(p.decided) || !p.granted || isClosed(p.ended) || !began.After(p.at) || p.notExclusive() {
			continue
		}
		n, _ := unitname.ParseLease(p.report.Unit())
		if n.Kind == unitname.ExclusiveLease && slices.Contains(p.report.Opens, node) && p.alive() {
			c.conflicts = append(c.conflicts, fmt.Sprintf("%s opens for a process without a lease, %s after %s was granted as exclusive", node, began.Sub(p.at), p.report.Unit()))
		}
	}
}
