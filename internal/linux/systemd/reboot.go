package systemd

import (
	"context"
	"errors"
	"fmt"

	"github.com/godbus/dbus/v5"
)

// ErrNoReboot says that the host does not reboot: logind refused the request, or could not be
// called. If [Reboot] returns any other error, it is unknown whether the host reboots.
var ErrNoReboot = errors.New("cannot reboot the host")

// Reboot requests a reboot from logind, see org.freedesktop.login1(5), and returns when the
// shutdown has begun. Inhibitor locks apply as logind applies them to root.
func Reboot(ctx context.Context) error { return RebootAt(ctx, SystemBus) }

// RebootAt is [Reboot] over the bus at the given address.
func RebootAt(ctx context.Context, bus string) error {
	l, err := dial(ctx, bus, newDispatcher(), join)
	if err != nil {
		return fmt.Errorf("%w: %w", ErrNoReboot, err)
	}
	defer l.Close()
	login := l.Object("org.freedesktop.login1", "/org/freedesktop/login1")
	const interactive = false
	err = login.CallWithContext(ctx, "org.freedesktop.login1.Manager.Reboot", 0, interactive).Err
	var refused dbus.Error
	switch {
	case errors.As(err, &refused) && refused.Name != "org.freedesktop.DBus.Error.NoReply":
		return fmt.Errorf("%w: %w", ErrNoReboot, err)
	case err != nil:
		return fmt.Errorf("cannot determine whether the host reboots: %w", err)
	}
	return nil
}
