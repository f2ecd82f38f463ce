package leaseservice

import (
	"context"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"dcm/internal/engine/event"
	"dcm/internal/engine/host"
	"dcm/internal/frontends/status"
	"dcm/internal/linux/systemd"
	"dcm/internal/linux/unitname"
	"dcm/internal/sanitize"
)

const (
	// noticeWindow is how long before the end of a lease by its time limit its user is notified. For a
	// limit of less than twice this time it is half of the limit.
	noticeWindow = 5 * time.Minute
	// noticeRetryDelay is the delay after the leases could not be read.
	noticeRetryDelay = time.Minute
)

// noticeAt returns when the user of a lease is notified of its end.
func noticeAt(began, until time.Time) time.Time {
	return until.Add(-min(noticeWindow, until.Sub(began)/2))
}

// notices notifies users before the time limits of their leases. It keeps no record of the leases: it
// reads them from PID 1 when a notice is due. So a daemon that was restarted within the last minutes of
// a lease notifies again.
type notices struct {
	list func(context.Context) ([]status.Lease, error)
	send func(context.Context, status.Lease) error
	now  func() time.Time
	log  *slog.Logger

	sent map[string]time.Time // by lease: the end of which the user was notified

	mu   sync.Mutex
	next time.Time     // of the next look at the leases; zero for none
	wake chan struct{} // of 1: next is earlier than before
}

func newNotices(h *host.Host, log *slog.Logger) *notices {
	return &notices{
		list: func(ctx context.Context) ([]status.Lease, error) {
			if len(host.LeaseUnits(h)) == 0 {
				return nil, nil // without a call to PID 1
			}
			return List(ctx, h)
		},
		send: func(ctx context.Context, l status.Lease) error { return startNotice(ctx, h, l) },
		now:  time.Now, log: log, sent: make(map[string]time.Time), wake: make(chan struct{}, 1),
	}
}

// expect makes run look at the leases at a time, or earlier.
func (n *notices) expect(at time.Time) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if !n.next.IsZero() && !at.Before(n.next) {
		return
	}
	n.next = at
	select {
	case n.wake <- struct{}{}:
	default:
	}
}

// run sends the notices until ctx ends. It begins with the leases of an earlier daemon.
func (n *notices) run(ctx context.Context) {
	n.expect(n.now())
	for ctx.Err() == nil {
		n.mu.Lock()
		var due <-chan time.Time
		if !n.next.IsZero() {
			due = time.After(n.next.Sub(n.now()))
		}
		n.mu.Unlock()
		select {
		case <-n.wake:
		case <-due:
			n.mu.Lock()
			n.next = time.Time{}
			n.mu.Unlock()
			if next := n.look(ctx); !next.IsZero() {
				n.expect(next)
			}
		case <-ctx.Done():
		}
	}
}

// look sends the notices that are due, and returns when the next one is; zero for none.
func (n *notices) look(ctx context.Context) (next time.Time) {
	now := n.now()
	leases, err := n.list(ctx)
	if err != nil {
		n.log.Warn(fmt.Sprintf("cannot check which leases are about to end: %v", err))
		return now.Add(noticeRetryDelay)
	}
	sent := n.sent
	n.sent = make(map[string]time.Time)
	for _, l := range leases {
		if l.Until == nil || !l.Until.After(now) {
			continue
		}
		if sent[l.Lease].Equal(*l.Until) {
			n.sent[l.Lease] = *l.Until
			continue
		}
		if at := noticeAt(l.Since, *l.Until); at.After(now) {
			if next.IsZero() || at.Before(next) {
				next = at
			}
			continue
		}
		n.sent[l.Lease] = *l.Until
		n.log.Info(fmt.Sprintf("a lease ends in %s by its time limit", l.Until.Sub(now).Round(time.Second)), event.LeaseEnds.Attr(),
			"lease", l.Lease, "user", sanitize.Text(l.User), "until", l.Until.Local().Format(time.DateTime), "partitions", l.Partitions)
		if err := n.send(ctx, l); err != nil {
			n.log.Warn(err.Error())
		}
	}
	return next
}

// startNotice starts the transient service that writes a notice to the terminals of a lease: the daemon
// itself can open no terminal.
func startNotice(ctx context.Context, h *host.Host, l status.Lease) error {
	ctx, cancel := context.WithTimeout(ctx, HostTimeout)
	defer cancel()
	conn, err := h.Dial(ctx)
	if err != nil {
		return err
	}
	defer conn.Close()
	return conn.Transients.StartService(ctx, noticeService(l))
}

// noticeService runs as the user of the lease, who may write to a terminal of mode 0600. That is the default since
// systemd 258, so it does not show the wish of mesg n (write(1)).
func noticeService(l status.Lease) systemd.Service {
	lease, _ := unitname.ParseLease(l.Lease)
	return systemd.Service{
		Name:        fmt.Sprintf("dcm-notice-%d-%s-%d.service", lease.UID, lease.ID, l.Until.UnixMicro()),
		Description: "Notify the user of " + l.Lease,
		Command:     []string{"/usr/libexec/dcm/dcm-service", "notice", l.Lease, fmt.Sprint(l.Until.UnixMicro())},
		Extra:       append(confinement(), systemd.Property{Name: "User", Value: fmt.Sprint(lease.UID)}),
	}
}
