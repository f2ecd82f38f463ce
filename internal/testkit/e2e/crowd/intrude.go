package crowd

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"time"

	"golang.org/x/sys/unix"

	"dcm/internal/leases/lease"
)

// intrusions is how often in a second somebody without a lease tries all nodes.
const intrusions = 100

// intrude opens all nodes over and over, as a user without a lease can, until ctx ends. Nobody
// who was told that his lease is exclusive may have a node that opens then.
func (c *people) intrude(ctx context.Context) {
	pace := time.NewTicker(time.Second / intrusions)
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
				c.intruded(node, began)
			}
		}
		select {
		case <-pace.C:
		case <-ctx.Done():
			return
		}
	}
}

// intruded compares a node that has opened with what those have who were told before that
// it is theirs alone. Who is alive now was so then.
func (c *people) intruded(node string, began time.Time) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, p := range c.all {
		if !over(p.answered) || !p.given || over(p.ended) || !began.After(p.at) || p.shared() {
			continue
		}
		n, _ := lease.ParseName(p.said.Unit())
		if n.Kind == lease.Exclusive && slices.Contains(p.said.Opens, node) && p.alive() {
			c.twice = append(c.twice, fmt.Sprintf("%s opens for a process in no lease, %s after %s was told that it is exclusive", node, began.Sub(p.at), p.said.Unit()))
		}
	}
}
