package client

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"dcm/internal/engine/host"
	"dcm/internal/engine/runstate"
	"dcm/internal/frontends/dbusapi"
	"dcm/internal/frontends/status"
	"dcm/internal/frontends/status/gather"
)

// take returns the daemon's account, which has everything whoever asks. Where none
// answers, on a host without one or of another tree, it looks itself.
func Account(ctx context.Context, h *host.Host) status.Account {
	a, _ := AccountWithReason(ctx, h)
	return a
}

// takeFrom is take, and why the account is not the daemon's; nil if it is.
func AccountWithReason(ctx context.Context, h *host.Host) (status.Account, error) {
	a, err := FromDaemon(h)(ctx)
	if err == nil {
		return a, nil
	}
	return status.Gather(ctx, time.Now(), gather.Sources(h, gather.Options{
		Config: h.Effective,
		State:  func(ctx context.Context) (*runstate.State, error) { return State(ctx, h) },
		All:    true,
	})), err
}

// fromDaemon returns the daemon's account.
func FromDaemon(h *host.Host) gather.DaemonStatus {
	return func(ctx context.Context) (a status.Account, err error) {
		var text string
		err = readDaemon(ctx, h, func(ctx context.Context, c *dbusapi.Client) (err error) {
			text, err = c.Account(ctx)
			return err
		})
		if err != nil {
			return a, err
		}
		if err := json.Unmarshal([]byte(text), &a); err != nil {
			return a, err
		}
		if a.Version != status.Version {
			return a, fmt.Errorf("the daemon's account has version %d, this dcm reads %d", a.Version, status.Version)
		}
		return a, nil
	}
}

// unseen is why a part of the account could not be looked at, or not all of it.
func WhyHidden(a status.Account, part string) error {
	for _, h := range a.Hidden {
		if h.Part == part {
			return errors.New(h.Why)
		}
	}
	return nil
}
