package service

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"syscall"
	"time"

	"dcm/internal/amdgpu"
	"dcm/internal/config"
	"dcm/internal/host"
	"dcm/internal/metrics"
	"dcm/internal/report"
	"dcm/internal/systemd"
)

// exporter writes the file of metrics whenever the daemon publishes its state.
type exporter struct {
	host *host.Host
	node *amdgpu.Node
	log  *slog.Logger
	dir  string // the collector's; "": no metrics
	gpus []metrics.GPU
	last metrics.Facts // as written
	told string        // the failure that was logged last, which is not told at each write
}

func (e *exporter) outlet(dir string) metrics.Outlet {
	return metrics.Outlet{Own: e.host.Path("run/dcm/metrics"), Collector: dir}
}

// glance is how long the GPUs' modes may take to be read for the metrics; those
// seen before have to do otherwise.
const glance = 2 * time.Second

// configure follows the configuration. A file in a directory that is no longer
// used would tell for ever how things once were.
func (e *exporter) configure(textfile string) {
	usual := e.host.Path(metrics.Usual)
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

// stop takes the metrics of a daemon away that was told to stop: the link would lead
// nowhere after the next boot, which the collector counts as an error. A daemon that
// failed leaves its last word.
func (e *exporter) stop() {
	if e.dir == "" {
		return
	}
	if err := e.outlet(e.dir).Remove(); err != nil {
		e.log.Warn(err.Error())
	}
}

// write writes the metrics of a state. It is for the daemon's loop alone.
func (e *exporter) write(ctx context.Context, s report.State) {
	if e.dir == "" {
		return
	}
	if s.Phase != report.Applying { // then they are on the move, and the driver may be
		e.look(ctx)
	}
	run, err := report.ReadRun(e.host.Runtime())
	if err != nil || run != nil && run.Boot != s.Boot {
		run = nil // the daemon tells of an unreadable report itself
	}
	e.last = metrics.Facts{State: s, Run: run, GPUs: e.gpus, Alive: e.last.Alive}
	e.put()
}

func (e *exporter) put() {
	if !e.last.Alive.IsZero() {
		e.last.Alive = time.Now()
	}
	e.tell(e.outlet(e.dir).Write(e.last))
}

// beats is the watchdog's ear: what tells systemd that the daemon is alive tells the
// metrics too. That is the one thing for which the daemon wakes up at rest.
type beats struct {
	*systemd.Notifier
	*exporter
}

func (b beats) Watchdog() error {
	err := b.Notifier.Watchdog()
	if b.dir != "" && b.last.State.Version != 0 {
		b.last.Alive = time.Now()
		b.put()
	}
	return err
}

// tell logs a failure, and no more: dcm's work does not depend on monitoring.
func (e *exporter) tell(err error) {
	if err == nil {
		e.told = ""
		return
	}
	text := err.Error()
	switch {
	case !errors.Is(err, syscall.EROFS):
	case e.dir == e.host.Path(metrics.Usual):
		// The unit's file system is laid out when it starts.
		text += "; the directory is newer than this daemon: systemctl restart dcm"
	default:
		text += fmt.Sprintf("; let the unit write there: systemctl edit dcm, [Service], ReadWritePaths=%s", e.dir)
	}
	if text != e.told {
		e.log.Warn(text)
	}
	e.told = text
}

func (e *exporter) look(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, glance)
	defer cancel()
	devices, err := e.node.Devices(ctx)
	if err != nil && len(devices) == 0 {
		return
	}
	e.gpus = nil
	for _, d := range devices {
		if d.Why == "" {
			e.gpus = append(e.gpus, metrics.GPU{Address: d.Address, Model: d.Model, Mode: d.Mode(), Partitions: d.Partitions()})
		}
	}
}
