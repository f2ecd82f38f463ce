package daemon

import (
	"context"
	"time"

	"dcm/internal/engine/runstate"
)

// repairQuietWindow is how long the GPUs must have been left alone after a repair for the next
// one to be made immediately. Two programs that each restore their own modes would otherwise
// restart the clients without end.
const repairQuietWindow = 10 * time.Minute

// drift is what the loop remembers of changes that dcm did not make.
type drift struct {
	event       bool      // there was a device event while a pass was under way
	fingerprint string    // of the GPUs after the last pass; "" if they may have changed since
	repairs     int       // in a row, without a quiet window between them
	repaired    time.Time // when the last of them was made
	delayed     bool      // the next attempt is a repair that had to wait
	glanced     string    // see [GPUReader.Glance]
}

// differs reports whether a glance differs from the last one.
func (d *drift) differs(glance string) bool {
	changed := glance != d.glanced
	d.glanced = glance
	return changed
}

// tooSoon reports whether the next repair has to wait.
func (d *drift) tooSoon() bool {
	if time.Since(d.repaired) > repairQuietWindow {
		d.repairs = 0
	}
	return d.repairs > 0
}

func (d *drift) countRepair(r result) {
	if (r.byDevice || d.delayed) && r.clients != nil {
		d.repairs++
		d.repaired = time.Now()
	}
	d.delayed = false
}

// onDeviceEvent starts a pass that compares the GPUs with those after the last pass.
//
// Runs of dcm cause device events too, also those that fail. So the settings are not read
// again, a retry that is due stays due, and nothing follows if the GPUs are unchanged.
func (l *loop) onDeviceEvent(ctx context.Context) {
	if l.pass != nil {
		l.drift.event = true
		return
	}
	l.drift.event = false
	watched := l.state.Phase == runstate.InSync || l.state.Phase == runstate.Drifted
	ignored := !l.settings.Selected || l.settings.LeaveDrift && !watched
	if !l.started || ignored && !l.GPUs.DriverUnloaded() {
		return
	}
	p := l.newPass(runstate.Asked{Why: "somebody else has changed the GPUs"})
	p.byDevice, p.before, p.tooSoon = true, l.drift.fingerprint, l.drift.tooSoon()
	l.run(ctx, p)
}

const driftHint = `dcm plan shows the steps and dcm apply makes them; with drift = "repair" in [daemon] dcm does so by itself`
