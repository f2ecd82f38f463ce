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

// deviceACL is the list of devices that the daemon may open. systemd looks up the kinds of
// devices in it ("char-drm") at the unit's start, and passes over those of drivers that
// are not loaded then: the daemon would be kept out of what comes later.
type deviceACL struct {
	host  *host.Host
	log   *slog.Logger
	refit func(context.Context) error

	mu    sync.Mutex
	known []byte // the kinds of devices that the kernel had, nil before the first look
}

// newDeviceACL knows what is there now, which has to be soon after systemd has looked: what
// comes between the two is never looked up.
func newDeviceACL(h *host.Host, log *slog.Logger) *deviceACL {
	o := &deviceACL{host: h, log: log, refit: func(ctx context.Context) error { return reloadDeviceACL(ctx, h) }}
	o.known, _ = o.kinds() // then it is as if all of them were new
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
		return // the next look tries again
	}
	o.log.Info("drivers have brought or taken kinds of devices, and the daemon's list of them was looked up anew")
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
