package dbusapi

import (
	"context"
	"time"

	"github.com/godbus/dbus/v5"

	"dcm/internal/sanitize"
)

// Acquire requests a lease. When it returns without an error, this process is in the lease.
func (c *Client) Acquire(ctx context.Context, r Request) (l Lease, err error) {
	if r.Queued != nil {
		defer c.onPosition(r.Queued)()
	}
	err = c.call(ctx, "Acquire", r.encode()).Store(&l.Unit, &l.Partitions, &l.Reason, &l.Notes)
	return l, fromBusError(err)
}

// onPosition calls report for each position that the daemon sends to this connection, until
// stop is called.
func (c *Client) onPosition(report func(QueuePosition)) (stop func()) {
	signals := make(chan *dbus.Signal, 16)
	c.conn.Signal(signals)
	done, ended := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(ended)
		for {
			select {
			case s, open := <-signals:
				if !open {
					return
				}
				var at, of uint32
				var reason string
				if s.Name == Interface+"."+queuedSignal && dbus.Store(s.Body, &at, &of, &reason) == nil {
					report(QueuePosition{int(at), int(of), sanitize.Text(reason)})
				}
			case <-done:
				return
			}
		}
	}()
	return func() { c.conn.RemoveSignal(signals); close(done); <-ended }
}

// Enter moves this process into a lease that was requested with Hold.
func (c *Client) Enter(ctx context.Context, lease string) (partitions []string, err error) {
	err = c.call(ctx, "Enter", lease).Store(&partitions)
	return partitions, fromBusError(err)
}

// Release ends a lease.
func (c *Client) Release(ctx context.Context, lease string) error {
	return fromBusError(c.call(ctx, "Release", lease).Err)
}

// Extend sets the time limit of a lease, counted from its start.
func (c *Client) Extend(ctx context.Context, lease string, limit time.Duration) error {
	return fromBusError(c.call(ctx, "Extend", lease, uint64(limit.Microseconds())).Err)
}

// Queue returns the requests that wait for a lease, in JSON.
func (c *Client) Queue(ctx context.Context) (text string, err error) {
	err = c.conn.Object(Name, Path).CallWithContext(ctx, Interface+".Queue", dbus.FlagNoAutoStart).Store(&text)
	return text, fromBusError(err)
}

// Dequeue removes a request from the queue.
func (c *Client) Dequeue(ctx context.Context, id uint32) error {
	return fromBusError(c.call(ctx, "Dequeue", id).Err)
}
