package client

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"dcm/internal/app/leaseservice"
	"dcm/internal/engine/host"
	"dcm/internal/engine/runstate"
	"dcm/internal/frontends/dbusapi"
	"dcm/internal/frontends/status"
	"dcm/internal/frontends/status/gather"
)

// Account returns the daemon's status, which is complete for every caller. Without a daemon,
// or for another root directory, it gathers the status itself.
func Account(ctx context.Context, h *host.Host) status.Account {
	a, _ := AccountWithReason(ctx, h)
	return a
}

// AccountWithReason is [Account]. The error says why the status is not the daemon's; it is nil
// if it is.
func AccountWithReason(ctx context.Context, h *host.Host) (status.Account, error) {
	a, err := FromDaemon(h)(ctx)
	if err == nil {
		return a, nil
	}
	return status.Gather(ctx, time.Now(), gather.Sources(h, gather.Options{
		Config: h.Effective,
		State:  func(ctx context.Context) (*runstate.State, error) { return State(ctx, h) },
		Held:   func(ctx context.Context) (status.HeldParts, error) { return leaseservice.Held(ctx, h) },
		All:    true,
	})), err
}

// FromDaemon returns a function that gets the daemon's status.
func FromDaemon(h *host.Host) gather.DaemonStatus {
	return func(ctx context.Context) (a status.Account, err error) {
		err = readDaemon(ctx, h, func(ctx context.Context, c *dbusapi.Client) (err error) {
			a, err = readAccount(ctx, c)
			return err
		})
		return a, err
	}
}

// accounts is the part of [dbusapi.Client] that returns the status.
type accounts interface {
	Account(ctx context.Context) (text string, err error)
	Changes(ctx context.Context) (<-chan struct{}, error)
}

// readAccount returns the daemon's status. If the daemon is starting, it waits briefly until the daemon has read
// the GPUs.
func readAccount(ctx context.Context, c accounts) (status.Account, error) {
	a, err := decodeAccount(ctx, c)
	if err != nil || !a.Unread() {
		return a, err
	}
	limit, cancel := context.WithTimeout(ctx, lookTimeout)
	defer cancel()
	changes, err := c.Changes(limit)
	if err != nil {
		return a, nil // complete but for the GPUs
	}
	for {
		next, err := decodeAccount(limit, c)
		if limit.Err() != nil && ctx.Err() == nil {
			return a, nil
		}
		if err != nil || !next.Unread() {
			return next, err
		}
		a = next
		select {
		case <-changes:
		case <-limit.Done():
			return a, ctx.Err()
		}
	}
}

func decodeAccount(ctx context.Context, c accounts) (a status.Account, err error) {
	text, err := c.Account(ctx)
	if err != nil {
		return a, err
	}
	if err := json.Unmarshal([]byte(text), &a); err != nil {
		return a, err
	}
	if a.Version != status.Version {
		return a, fmt.Errorf("unknown version of the status (found %d, want %d)", a.Version, status.Version)
	}
	return a, nil
}

// WhyHidden returns why a part of the status is missing or incomplete, nil if it is not.
func WhyHidden(a status.Account, part string) error {
	for _, h := range a.Hidden {
		if h.Part == part {
			return errors.New(h.Why)
		}
	}
	return nil
}
