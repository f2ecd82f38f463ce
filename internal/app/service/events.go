package service

import (
	"context"
	"log/slog"
	"os"
	"os/signal"
	"syscall"
	"time"

	"dcm/internal/engine/config"
	"dcm/internal/engine/host"
	"dcm/internal/gpu"
	"dcm/internal/linux/watch"
)

// configSettleDelay is how long the configuration must be unchanged before it is read: editors and
// configuration management write in several steps.
const configSettleDelay = 200 * time.Millisecond

// configMaxDelay limits that delay while edits continue. The delay exists because each run
// restarts the clients, and an incomplete edit is not to be applied.
const configMaxDelay = 15 * time.Second

// deviceSettleDelay is configSettleDelay for devices: a driver sends many events for each GPU.
const deviceSettleDelay = 100 * time.Millisecond

// events are the events that the daemon waits for.
type events struct {
	watches *watch.Set
	changed <-chan struct{} // the configuration
	devices <-chan struct{}
	busMade <-chan struct{} // the socket of the bus, or its policy; nil if it cannot be watched
	hangup  chan os.Signal
}

// newEvents watches until ctx ends.
func newEvents(ctx context.Context, h *host.Host, node *gpu.Node, log *slog.Logger) (*events, error) {
	e := &events{watches: &watch.Set{Poll: true}, hangup: make(chan os.Signal, 1)}
	var err error
	e.changed, err = e.watches.FilesWithin(ctx, config.DefaultPaths(h.Root).Watched(), configSettleDelay, configMaxDelay, log)
	if err != nil {
		return nil, err
	}
	e.devices, err = e.watches.Devices(ctx, watch.Interest{
		About: func(u watch.Uevent) bool { return node.Watch().RelevantEvent(u.Subsystem, u.Path) },
		Files: node.Watch().ModeFiles,
	}, deviceSettleDelay, log)
	if err != nil {
		return nil, err
	}
	// A restart of the bus makes its socket again. A new policy takes effect with its file.
	dirs := []string{"/run/dbus", "/usr/share/dbus-1/system.d", "/etc/dbus-1/system.d"}
	if e.busMade, err = e.watches.Files(ctx, dirs, configSettleDelay, log); err != nil {
		log.Warn("cannot watch the bus: a bus that starts later is not noticed", "error", err)
		e.busMade = nil
	}
	signal.Notify(e.hangup, syscall.SIGHUP)
	return e, nil
}
