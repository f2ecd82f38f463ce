package client

import (
	"context"
	"encoding/json"
	"fmt"

	"dcm/internal/app/leaseservice"
	"dcm/internal/engine/host"
	"dcm/internal/frontends/dbusapi"
	"dcm/internal/frontends/status"
)

// Usage returns the use of the partitions as the daemon sees it, which may be more than the
// caller can see. Without a daemon it reads the host itself.
func Usage(ctx context.Context, h *host.Host) (status.Usage, error) {
	if u, err := askedUsage(ctx, h); err == nil {
		return u, nil
	}
	u := leaseservice.Usage(ctx, h)
	return u, ctx.Err()
}

func askedUsage(ctx context.Context, h *host.Host) (u status.Usage, err error) {
	var text string
	err = readDaemon(ctx, h, func(ctx context.Context, c *dbusapi.Client) (err error) {
		text, err = c.Usage(ctx)
		return err
	})
	if err != nil {
		return u, err
	}
	if err := json.Unmarshal([]byte(text), &u); err != nil {
		return u, err
	}
	if u.Version != status.Version {
		return u, fmt.Errorf("unknown version of the usage (found %d, want %d)", u.Version, status.Version)
	}
	return u, nil
}
