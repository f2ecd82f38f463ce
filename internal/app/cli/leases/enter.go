package leases

import (
	"context"
	"errors"
	"fmt"

	"dcm/internal/app/cli/client"
	"dcm/internal/engine/host"
	"dcm/internal/frontends/dbusapi"
)

// enter moves this process into a lease of dcm lease hold.
func enter(ctx context.Context, h *host.Host, name string) (dbusapi.Lease, error) {
	unit, err := findLease(h, name)
	if err != nil {
		return dbusapi.Lease{}, err
	}
	l := dbusapi.Lease{Unit: unit}
	err = client.CallDaemon(ctx, h, dbusapi.RetryPolicy{Limit: client.DaemonTimeout}, func(c *dbusapi.Client) (err error) {
		l.Partitions, err = c.Enter(ctx, unit)
		return err
	})
	return l, err
}

// checkEnter checks that --lease has a name, and no options of a request.
func checkEnter(name string, command []string, set func(option string) bool) error {
	if name == "" {
		return errors.New("--lease: empty; want the name of a lease, such as DCM_LEASE of 'dcm lease hold'")
	}
	for _, option := range []string{"partitions", "gpus", "gpu", "partition", "place", "vendor", "mode", "make", "exclusive", "share", "wait", "time", "dry-run", "json", "free", "node", "profile"} {
		if set(option) {
			return fmt.Errorf("--lease cannot be combined with --%s: the lease exists", option)
		}
	}
	if len(command) == 0 {
		return errors.New("no command given (want dcm run --lease NAME -- COMMAND [ARGUMENT...])")
	}
	return nil
}
