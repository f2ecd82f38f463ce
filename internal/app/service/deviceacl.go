package service

import (
	"bytes"
	"context"
	"log/slog"
	"os"
	"sync"

	"dcm/internal/engine/host"
	"dcm/internal/linux/unitname"
)

// deviceACL is the list of devices that the daemon may open. systemd resolves the kinds of devices
// in it ("char-drm") when it starts the unit, and skips those of drivers that are not loaded then.
type deviceACL struct {
	host  *host.Host
	log   *slog.Logger
	refit func(context.Context) error

	mu    sync.Mutex
	known []byte // the last content of /proc/devices
}

// newDeviceACL reads the present kinds of devices. It must be called soon after systemd resolved
// the list: a driver that is loaded in between is missed.
func newDeviceACL(h *host.Host, log *slog.Logger) *deviceACL {
	o := &deviceACL{host: h, log: log, refit: func(ctx context.Context) error { return reloadDeviceACL(ctx, h) }}
	o.known, _ = o.kinds() // after an error all kinds count as new
	return o
}

func (o *deviceACL) kinds() ([]byte, error) { return os.ReadFile(o.host.Path("proc/devices")) }

// refreshIfChanged has systemd resolve the list again if drivers have added or removed kinds of
// devices. It is called before the GPUs are read.
func (o *deviceACL) refreshIfChanged(ctx context.Context) {
	o.mu.Lock()
	defer o.mu.Unlock()
	now, err := o.kinds()
	if err != nil || bytes.Equal(now, o.known) {
		return
	}
	if err := o.refit(ctx); err != nil {
		o.log.Warn(err.Error())
		return // the next reading tries again
	}
	o.log.Info("the kinds of devices have changed; systemd has updated the devices that the daemon may open")
	o.known = now
}

func reloadDeviceACL(ctx context.Context, h *host.Host) error {
	conn, err := h.Dial(ctx)
	if err != nil {
		return err
	}
	defer conn.Close()
	return conn.Cgroups.RefreshDevicePolicy(ctx, unitname.Daemon)
}
