package service

import (
	"errors"
	"fmt"
	"log/slog"
	"os"
	"sync"
	"syscall"
	"time"

	"dcm/internal/engine/config"
	"dcm/internal/engine/host"
	"dcm/internal/frontends/metrics"
	"dcm/internal/frontends/status"
	"dcm/internal/linux/systemd"
)

// exporter writes the file of metrics.
type exporter struct {
	host   *host.Host
	log    *slog.Logger
	leased func() map[string]float64 // see [metrics.Render]; nil: none

	mu     sync.Mutex
	dir    string          // the collector's; "": no metrics
	last   *status.Account // as written
	alive  time.Time       // the time of the last sign of life; zero without a watchdog
	logged string          // the failure that was logged last
}

func newExporter(h *host.Host, alive bool, log *slog.Logger) *exporter {
	e := &exporter{host: h, log: log}
	if alive {
		e.alive = time.Now()
	}
	return e
}

func (e *exporter) outlet(dir string) metrics.Directory {
	return metrics.Directory{Data: e.host.Path("run/dcm/metrics"), Collector: dir}
}

// configure applies the configuration. A file in a directory that is no longer used would never
// change.
func (e *exporter) configure(textfile string) {
	e.mu.Lock()
	defer e.mu.Unlock()
	usual := e.host.Path(metrics.DebianDirectory)
	dir := textfile
	switch textfile {
	case config.Off:
		dir = ""
	case "":
		if info, err := os.Stat(usual); err == nil && info.IsDir() {
			dir = usual
		}
	}
	for _, old := range []string{usual, e.dir} {
		if old == dir || old == "" {
			continue
		}
		remove := e.outlet(old).Unlink
		if dir == "" {
			remove = e.outlet(old).Remove
		}
		if err := remove(); err != nil {
			e.log.Warn(err.Error())
		}
	}
	if dir != "" && dir != e.dir {
		if err := e.outlet(dir).Sweep(); err != nil {
			e.log.Warn(err.Error())
		}
	}
	e.dir = dir
}

// stop removes the metrics when an administrator stops the daemon: after the next boot the link
// would lead nowhere, which the collector counts as an error. A daemon that failed leaves its last
// metrics.
func (e *exporter) stop() {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.dir == "" {
		return
	}
	if err := e.outlet(e.dir).Remove(); err != nil {
		e.log.Warn(err.Error())
	}
	e.dir = ""
}

// on reports whether metrics are written.
func (e *exporter) on() bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.dir != ""
}

// write writes the metrics of an account.
func (e *exporter) write(a status.Account) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.last = &a
	e.put()
}

func (e *exporter) put() {
	if e.dir == "" {
		return
	}
	if !e.alive.IsZero() {
		e.alive = time.Now()
	}
	var leased map[string]float64
	if e.leased != nil {
		leased = e.leased()
	}
	e.logOnce(e.outlet(e.dir).Write(*e.last, e.alive, leased))
}

// watchdogHook runs at each watchdog tick, the only thing that wakes the daemon at rest. It
// notifies systemd, renews the time in the metrics, and does the daemon's other periodic work.
type watchdogHook struct {
	*systemd.Notifier
	*exporter
	work func()
}

func (b watchdogHook) Watchdog() error {
	err := b.Notifier.Watchdog()
	b.work()
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.last != nil {
		b.alive = time.Now()
		b.put()
	}
	return err
}

// reloadHook runs at each systemctl reload, with which an administrator requests a check.
type reloadHook struct {
	*systemd.Notifier
	work func()
}

func (b reloadHook) Reloading() error {
	b.work()
	return b.Notifier.Reloading()
}

// logOnce logs a failure once. dcm does not depend on monitoring.
func (e *exporter) logOnce(err error) {
	if err == nil {
		e.logged = ""
		return
	}
	text := err.Error()
	switch {
	case !errors.Is(err, syscall.EROFS):
	case e.dir == e.host.Path(metrics.DebianDirectory):
		// The unit's file system is laid out when it starts.
		text += "; the directory is newer than this daemon: systemctl restart dcm"
	default:
		text += fmt.Sprintf("; let the unit write there: systemctl edit dcm, [Service], ReadWritePaths=%s", e.dir)
	}
	if text != e.logged {
		e.log.Warn(text)
	}
	e.logged = text
}
