package daemon

import (
	"context"
	"fmt"
	"log/slog"
	"maps"

	"dcm/internal/text"
)

// dropinLoader makes PID 1 load the drop-ins of the settings.
type dropinLoader struct {
	stale     func(Settings) ([]string, error)
	unwritten func() ([]string, error)
	failed    map[string]string // drop-ins that the generator did not write, although PID 1 was reloaded for them; nil: none
}

// load reloads systemd if its drop-ins differ from those of the settings. If the generator fails,
// load requests no second reload for the same drop-ins unless again is set. Package dropins repeats
// it with a back-off.
func (l *dropinLoader) load(ctx context.Context, conn *connection, s Settings, again bool, log *slog.Logger) (reloaded bool, err error) {
	differ, err := l.stale(s)
	if err != nil {
		return false, err
	}
	if len(differ) == 0 {
		l.failed = nil
		return false, nil
	}
	want := s.Order.Dropins()
	if l.failed != nil && maps.Equal(l.failed, want) && !again {
		return false, nil
	}
	pid1, err := conn.open(ctx)
	if err != nil {
		return false, err
	}
	log.Info("reloading systemd: drop-ins differ from the configuration: "+text.Few(differ), "units", differ)
	if err := pid1.Manager.Reload(ctx); err != nil {
		return false, fmt.Errorf("cannot reload systemd for the drop-ins of %s: %w", text.Few(differ), err)
	}
	l.failed = nil
	failed, err := l.unwritten()
	if err == nil && len(failed) > 0 { // otherwise the generator has read a newer edit
		l.failed = want
	}
	return true, err
}
