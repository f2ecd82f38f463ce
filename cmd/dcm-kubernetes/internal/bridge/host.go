package bridge

import (
	"context"
	"log/slog"
	"sync"
	"time"

	"dcm/cmd/dcm-kubernetes/internal/agent"
	"dcm/cmd/dcm-kubernetes/internal/feature"
	"dcm/cmd/dcm-kubernetes/internal/sequence"
	"dcm/cmd/dcm-kubernetes/internal/vendor"
)

// hostState has the last account. A connection delivers accounts in order, and connections
// are numbered. The times of accounts do not order them, since the host's clock can be set
// back.
type hostState struct {
	mu         sync.Mutex
	known      bool
	account    agent.Account
	down       string
	connection int
	end        context.CancelFunc // of the current connection
}

// now returns the host from the last account, with the GPUs of a vendor, and whether there is one.
func (h *hostState) now(v *vendor.Vendor) (sequence.Host, bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	a := h.account
	host := sequence.Host{
		Down:       h.down,
		Running:    a.Running(),
		Rebooting:  a.Rebooting(),
		Effective:  a.Profile.Effective,
		InSync:     a.Health.InSync,
		Problem:    a.Problem(),
		Partitions: a.Partitions(),
	}
	if v == vendor.NVIDIA {
		mig := a.MIG()
		host.Partitions, host.Whole, host.Empty = mig.Partitions, mig.GPUs, mig.Empty
	}
	host.Unread = a.Starting() || len(host.Partitions) == 0 && host.Whole == 0
	return host, h.known
}

// names returns the addresses and UUIDs of GPUs, nil if these are all GPUs of the vendor.
func (h *hostState) names(v *vendor.Vendor, addresses []string) []string {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.account.Names(v.Name, addresses)
}

// answers returns why dcm does not respond, "" if it does, and whether that is known.
func (h *hostState) answers() (down string, known bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.down, h.known
}

// connect numbers a new connection. It lasts until the returned context ends.
func (h *hostState) connect(ctx context.Context) (own context.Context, connection int) {
	h.mu.Lock()
	defer h.mu.Unlock()
	own, h.end = context.WithCancel(ctx)
	h.connection++
	return own, h.connection
}

// renew ends the current connection, so that the next account is newer than this call.
func (h *hostState) renew() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.known = false
	h.connection++
	h.end()
}

// learn stores an account, unless its connection was ended.
func (h *hostState) learn(connection int, a agent.Account) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	if connection != h.connection {
		return false
	}
	h.known, h.down, h.account = true, "", a
	return true
}

// lose stores why dcm does not respond, unless renew ended the connection.
func (h *hostState) lose(connection int, why error) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	if connection != h.connection {
		return false
	}
	h.known, h.down = true, why.Error()
	return true
}

// publish writes the node's features, except those of NVIDIA's GPUs. GPU Feature Discovery publishes them.
func publish(to feature.File, a agent.Account, log *slog.Logger) {
	if len(a.Partitions()) == 0 && a.MIG().GPUs > 0 {
		return
	}
	if err := to.Write(a.Partitions()); err != nil {
		log.Warn("features not published", "error", err)
	}
}

// follow keeps the account and the node's features up to date.
func (b *Bridge) follow(ctx context.Context) {
	for pause := time.Second; ctx.Err() == nil; {
		own, connection := b.host.connect(ctx)
		err := b.Host.Follow(own, func(a agent.Account) {
			pause = time.Second
			if !b.host.learn(connection, a) {
				return
			}
			publish(b.Features, a, b.Log)
			b.nudge()
		})
		if ctx.Err() != nil {
			return
		}
		if !b.host.lose(connection, err) {
			continue
		}
		b.Log.Warn("dcm does not answer", "error", err)
		b.nudge()
		select {
		case <-own.Done():
		case <-time.After(jitter(pause)):
		}
		pause = min(2*pause, 30*time.Second)
	}
}
