package daemon

import (
	"time"
)

// repairQuietWindow is how long the GPUs must have been left alone after a repair for the next
// one to be made immediately. Two programs that each restore their own modes would otherwise
// restart the clients without end.
const repairQuietWindow = 10 * time.Minute

// drift is the loop's record of changes that dcm did not make.
type drift struct {
	event       bool // there was a device event while a pass was under way
	history     gpuHistory
	fingerprint string    // of the GPUs' state after the last pass; "" if they may have changed since
	repairs     int       // in a row, without a quiet window between them
	repaired    time.Time // when the last of them was made
	delayed     bool      // the next attempt is a delayed repair
	glanced     string    // see [GPUReader.Glance]
}

// differs reports whether a glance differs from the last one.
func (d *drift) differs(glance string) bool {
	changed := glance != d.glanced
	d.glanced = glance
	return changed
}

// tooSoon reports whether the next repair must be delayed.
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
