package daemon

import (
	"context"
	"time"

	"dcm/internal/engine/event"
)

// rebootTimeout is for asking. The daemon is ended by the shutdown itself.
const rebootTimeout = 30 * time.Second

// reboot reboots the host for a failure that nothing less helps against, where the
// settings allow it. It tells in the failure what came of that.
func (l *loop) reboot(ctx context.Context, o *result) bool {
	if !o.failure.Reboot || !l.settings.Reboot || len(o.holders) > 0 {
		return false
	}
	ctx, cancel := context.WithTimeout(ctx, rebootTimeout)
	defer cancel()
	failure := *o.failure
	o.failure = &failure
	if err := l.Host.Reboot(ctx, l.settings.Profile, failure.Text); err != nil {
		l.Log.Error(err.Error())
		failure.Text += "; " + err.Error()
		return false
	}
	l.Log.Warn("the host is being rebooted for profile "+l.settings.Profile.Name, "error", failure.Text, event.Rebooting.Attr())
	failure.Text += "; the host is being rebooted for it"
	failure.Cure = ""
	return true
}
