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

// usage is how much of the partitions is in use, as the daemon sees it, who may see more
// than who asks; where none answers, as it can be seen from here.
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
		return u, fmt.Errorf("what the daemon tells has version %d, this dcm reads %d", u.Version, status.Version)
	}
	return u, nil
}
