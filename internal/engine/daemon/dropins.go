package daemon

import (
	"context"
	"errors"
	"fmt"
	"maps"

	"dcm/internal/linux/systemd"
	"dcm/internal/linux/unitname"
	"dcm/internal/text"
)

// reloads remembers for which drop-ins PID 1 was reloaded although the generator did not write
// them. They are nil if it did.
type reloads struct{ failed map[string]string }

// reloadDropins reloads systemd if its drop-ins differ from those of the settings. If the
// generator fails, it requests one reload for the same drop-ins: repeating that is up to package
// dropins, with its back-off. An administrator's request is a reason for another one.
func (p *pass) reloadDropins(ctx context.Context) error {
	differ, err := p.Stale(p.settings)
	if err != nil {
		return err
	}
	if len(differ) == 0 {
		p.reloads.failed = nil
		return nil
	}
	want := p.settings.Order.Dropins()
	if p.reloads.failed != nil && maps.Equal(p.reloads.failed, want) && !p.forced {
		return nil
	}
	u, err := p.pid1.connect(ctx)
	if err != nil {
		return err
	}
	p.log.Info("reloading systemd: drop-ins differ from the configuration: "+text.Few(differ), "units", differ)
	if err := u.Reload(ctx); err != nil {
		return fmt.Errorf("cannot reload systemd for the drop-ins of %s: %w", text.Few(differ), err)
	}
	p.reloads.failed, p.forced = nil, false
	failed, err := p.Unwritten()
	if err == nil && len(failed) > 0 { // else the files were edited once more, and that is what was written
		p.reloads.failed = want
	}
	return err
}

// clearFailed clears the failures of earlier runs when all is well: they would keep the host
// "degraded" needlessly.
func (p *pass) clearFailed(ctx context.Context, r result) {
	if r.failure != nil || r.retryReserve != nil || r.drift != nil || !p.usable {
		return
	}
	last, err := p.LastRun()
	reported := err == nil && last != nil && !last.Result.OK()
	// A run that is killed at its very end, or in a hook, has reported success.
	if !reported && !p.failures.lastPass && !p.failures.fresh && p.failures.attempts == 0 && p.pid1.units == nil {
		return
	}
	own := []string{unitname.Apply}
	if p.Unmet == nil || !p.Unmet() {
		own = append(own, unitname.Reserve)
	}
	u, err := p.pid1.connect(ctx)
	var now []systemd.Unit
	if err == nil {
		now, err = u.List(ctx, own, systemd.States)
	}
	for _, unit := range now {
		if unit.Active == "failed" {
			p.log.Info("clearing the failure of "+unit.ID+", as all is in order now", "unit", unit.ID)
			err = errors.Join(err, u.ResetFailed(ctx, unit.ID))
		}
	}
	if err != nil {
		p.log.Warn("cannot clear the failures of dcm's units", "error", err)
	}
}
