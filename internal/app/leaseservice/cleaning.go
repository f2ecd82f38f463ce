package leaseservice

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"dcm/internal/engine/config"
	"dcm/internal/engine/host"
	"dcm/internal/engine/runstate"
	"dcm/internal/gpu/partition"
	"dcm/internal/leases/lease"
	"dcm/internal/linux/systemd"
	"dcm/internal/linux/unitname"
)

// cleanWaitTimeout is how long a request waits for the cleaning of partitions whose lease has just ended.
const cleanWaitTimeout = 2 * time.Second

// cleaning reads which partitions are cleaned after their leases, and which were not. The snapshot already has the
// units below dcm.slice: a lease that has ended since still counts as a holder.
func (p *Partitions) cleaning(ctx context.Context, conn *systemd.Conn, s lease.Snapshot) (lease.Cleaning, error) {
	mode := p.config().Leases.Clean
	if mode == config.NoCleaning {
		return lease.Cleaning{}, nil
	}
	out := lease.Cleaning{GPUs: make(map[partition.Address]bool), Pending: make(map[string]string), Failed: make(map[string]bool), Ending: make(map[string]bool)}
	any := false
	for _, part := range s.Parts {
		can, known := out.GPUs[part.GPU]
		if !known {
			can = p.node.Cleans(part.GPU)
			out.GPUs[part.GPU] = can
		}
		if any = any || can; !can && mode == config.CleanRequired {
			out.Pending[part.Name] = fmt.Sprintf("clean = %q in [leases], and the driver cannot clean this partition", mode)
		}
	}
	if !any {
		return out, nil
	}
	limit, cancel := context.WithTimeout(ctx, cleanWaitTimeout)
	defer cancel()
	units, err := settledCleaning(limit, conn.Units, heldParts(s))
	if err != nil {
		return out, err
	}
	for _, u := range units {
		name := unitname.CleanedBy(u.Name)
		switch {
		case u.Active == "failed" && mode != config.CleanRequired:
			out.Failed[name] = true
		case u.Active == "failed":
			out.Pending[name] = u.Name + " has failed"
		default:
			out.Pending[name], out.Ending[name] = u.Name, true
		}
	}
	return out, nil
}

// FailedCleaning returns the partitions that were not cleaned after their last user.
func FailedCleaning(ctx context.Context, h *host.Host) (lease.Cleaning, error) {
	conn, err := h.Dial(ctx)
	if err != nil {
		return lease.Cleaning{}, err
	}
	defer conn.Close()
	failed, err := conn.Units.Failed(ctx, []string{unitname.Clean})
	out := lease.Cleaning{Failed: make(map[string]bool)}
	for _, u := range failed {
		out.Failed[unitname.CleanedBy(u.Name)] = true
	}
	return out, err
}

// heldParts returns the partitions that a unit of a snapshot has.
func heldParts(s lease.Snapshot) map[string]bool {
	held := make(map[string]bool)
	for _, a := range lease.Allocations(s) {
		held[a.Name] = len(a.Units) > 0
	}
	return held
}

// settledCleaning returns the units that have not cleaned their partition: those that have failed and, if ctx ends
// before, those that have not ended. Units of partitions that are held do not count.
func settledCleaning(ctx context.Context, units systemd.Units, held map[string]bool) ([]systemd.Unit, error) {
	for {
		list, err := units.Instances(context.WithoutCancel(ctx), unitname.Clean)
		if err != nil {
			return nil, err
		}
		list = slices.DeleteFunc(list, func(u systemd.Unit) bool { return held[unitname.CleanedBy(u.Name)] || u.Active == "inactive" })
		had := make(map[string]string)
		for _, u := range list {
			if u.Active != "failed" {
				had[u.Name] = u.Active
			}
		}
		if len(had) == 0 {
			return list, nil
		}
		if err := units.Changed(ctx, had); err != nil && ctx.Err() == nil {
			return nil, err
		}
		if ctx.Err() != nil {
			return list, nil
		}
	}
}

// The delays between the attempts to clean partitions. Each is twice as long as the one before.
const (
	firstCleanDelay = time.Minute
	maxCleanDelay   = time.Hour
	// cleanUnitTimeout is a little more than TimeoutStopSec= of dcm-clean@.service.
	cleanUnitTimeout = 40 * time.Second
)

// retryCleaningSoon makes RetryCleaning look at the units again.
func (s *Service) retryCleaningSoon() {
	select {
	case s.cleaned <- struct{}{}:
	default:
	}
}

// RetryCleaning repeats failed cleanings of partitions until ctx ends. The status has the failed units.
func (s *Service) RetryCleaning(ctx context.Context) {
	var failed []string
	delay := firstCleanDelay
	var recheck <-chan time.Time // the scope of a lease that has ended can be active for a moment
	for first := true; ctx.Err() == nil; first = false {
		var due <-chan time.Time
		if len(failed) > 0 {
			due = time.After(delay)
		}
		if !first { // an earlier daemon may have left failed units
			select {
			case <-s.cleaned:
				recheck = time.After(changePollInterval)
			case <-recheck:
				recheck = nil
			case <-due:
				delay = min(2*delay, maxCleanDelay)
				s.cleanAgain(ctx, failed)
			case <-ctx.Done():
				return
			}
		}
		now, err := s.uncleaned(ctx)
		if err != nil {
			s.log.Warn("cannot check the cleaning of partitions: " + err.Error())
			continue
		}
		if !slices.Equal(now, failed) {
			for _, unit := range now {
				if !slices.Contains(failed, unit) {
					s.log.Warn(unitname.CleanedBy(unit)+" was not cleaned after its last user", "unit", unit)
					delay = firstCleanDelay
				}
			}
			failed = now
			s.statusChanged()
		}
	}
}

// uncleaned returns the units that have failed, after the end of those that run.
func (s *Service) uncleaned(ctx context.Context) ([]string, error) {
	last, err := runstate.ReadPartitions(s.host.Runtime())
	if err != nil || last == nil {
		return nil, err
	}
	cleans := false
	for address := range last.Modes {
		cleans = cleans || s.partitions.node.Cleans(partition.Address(address))
	}
	if !cleans {
		return nil, nil // the usual case, without a call to PID 1
	}
	ctx, cancel := context.WithTimeout(ctx, cleanUnitTimeout)
	defer cancel()
	conn, err := s.host.Dial(ctx)
	if err != nil {
		return nil, err
	}
	defer conn.Close()
	held, err := s.heldNow(ctx, conn, last.Parts)
	if err != nil {
		return nil, err
	}
	units, err := settledCleaning(ctx, conn.Units, held)
	var out []string
	for _, u := range units {
		if u.Active == "failed" {
			out = append(out, u.Name)
		}
	}
	return out, err
}

// heldNow returns the partitions that units have now.
func (s *Service) heldNow(ctx context.Context, conn *systemd.Conn, parts []runstate.Part) (map[string]bool, error) {
	units, err := s.partitions.unitDevices(ctx, conn, func() (uint64, error) { return conn.Manager.LoadedAt(ctx) })
	return heldParts(lease.Snapshot{Parts: parts, Units: units}), err
}

// cleanAgain starts units, which nothing needs: systemd stops them, and that cleans. It clears the failure of a
// unit whose partition does not exist any more.
func (s *Service) cleanAgain(ctx context.Context, units []string) {
	ctx, cancel := context.WithTimeout(ctx, HostTimeout)
	defer cancel()
	last, err := runstate.ReadPartitions(s.host.Runtime())
	if err != nil || last == nil {
		return
	}
	conn, err := s.host.Dial(ctx)
	if err != nil {
		return
	}
	defer conn.Close()
	for _, unit := range units {
		name := unitname.CleanedBy(unit)
		exists := slices.ContainsFunc(last.Parts, func(p runstate.Part) bool { return p.Name == name })
		if exists {
			err = errors.Join(err, conn.Jobs.Start(ctx, unit))
		} else {
			err = errors.Join(err, conn.Jobs.ResetFailed(ctx, unit))
		}
	}
	if err != nil {
		s.log.Warn("cannot repeat the cleaning of partitions: " + strings.TrimSpace(err.Error()))
	}
}
