package leaseservice

import (
	"context"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"time"

	"dcm/internal/engine/host"
	"dcm/internal/exitcode"
	"dcm/internal/gpu/made"
	"dcm/internal/linux/systemd"
	"dcm/internal/linux/unitname"
)

// failureTTL is how long systemd and the status keep the failure of a unit for a lease, whose caller got the error.
const failureTTL = 10 * time.Minute

// failedUnits are the instances of dcm-make@.service that have failed.
type failedUnits interface {
	Failed(ctx context.Context) ([]systemd.Unit, error)
	ResetFailed(ctx context.Context, unit string) error
}

// failures clears failures that nothing else clears. A later start clears the failure of a unit for a service,
// but each lease has a unit of its own. A failure is cleared immediately if the unit refused the request of a
// lease, if its stop has failed, which the daemon repeats, or if the configuration does not need the unit.
type failures struct {
	units   failedUnits
	wanted  func(made.Name) bool // see [sweeper]
	changed func()               // called when other units have failed than before
	now     func() time.Time
	log     *slog.Logger

	since map[string]time.Time // unit → when its failure was noticed
}

// sweep clears the failures whose time is over, and returns when it is for the next one; zero for none.
func (f *failures) sweep(ctx context.Context) (next time.Time, err error) {
	units, err := f.units.Failed(ctx)
	if err != nil {
		return time.Time{}, err
	}
	before := f.since
	f.since = make(map[string]time.Time)
	for _, u := range units {
		since, known := before[u.Name]
		if !known {
			since = f.now()
		}
		until := f.until(u, since)
		if !until.IsZero() && !until.After(f.now()) {
			if err := f.units.ResetFailed(ctx, u.Name); err != nil {
				return time.Time{}, err
			}
			continue
		}
		if !known {
			f.log.Warn(fmt.Sprintf("%s has failed: result %s", u.Name, u.Result), "unit", u.Name)
		}
		if f.since[u.Name] = since; !until.IsZero() && (next.IsZero() || until.Before(next)) {
			next = until
		}
	}
	if !slices.Equal(slices.Sorted(maps.Keys(before)), slices.Sorted(maps.Keys(f.since))) {
		f.changed()
	}
	return next, nil
}

// until returns when a failure is cleared; zero: not before the next start.
func (f *failures) until(u systemd.Unit, since time.Time) time.Time {
	refused := !u.Failed.Signal && (u.Failed.Status == exitcode.Transient || u.Failed.Status == exitcode.Permanent)
	s, err := made.ServiceOf(u.Name)
	switch {
	case u.Failed.Directive == "ExecStopPost", err == nil && !f.wanted(made.Name{Lease: s.Unit, Profile: s.Profile}), err != nil && refused:
		return since
	case err == nil:
		return time.Time{}
	}
	return since.Add(failureTTL)
}

// any reports whether units have failed.
func (f *failures) any() bool { return len(f.since) > 0 }

// hostFailures are the units of this host. It is a [failedUnits].
type hostFailures struct{ host *host.Host }

func (h hostFailures) Failed(ctx context.Context) ([]systemd.Unit, error) {
	ctx, cancel := context.WithTimeout(ctx, HostTimeout)
	defer cancel()
	conn, err := h.host.Dial(ctx)
	if err != nil {
		return nil, err
	}
	defer conn.Close()
	return conn.Units.Failed(ctx, []string{unitname.Make})
}

func (h hostFailures) ResetFailed(ctx context.Context, unit string) error {
	conn, err := h.host.Dial(ctx)
	if err != nil {
		return err
	}
	defer conn.Close()
	return conn.Jobs.ResetFailed(ctx, unit)
}
