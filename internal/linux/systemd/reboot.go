package systemd

import (
	"context"
	"errors"
	"fmt"

	"github.com/godbus/dbus/v5"

	"dcm/internal/linux/dbusconn"
)

// ErrNoReboot says that the host will not reboot: logind has refused to, or could
// not be asked. With another error of [Reboot] nobody can tell.
var ErrNoReboot = errors.New("the host is not rebooted")

// Reboot asks logind to reboot the host, see org.freedesktop.login1(5). It returns
// when the shutdown has begun. A lock that inhibits it is respected as far as
// logind does that for root.
func Reboot(ctx context.Context) error { return RebootAt(ctx, SystemBus) }

// RebootAt is [Reboot] by another bus.
func RebootAt(ctx context.Context, bus string) error {
	l, err := dial(ctx, bus, newDispatcher(), dbusconn.Join)
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
		return fmt.Errorf("cannot tell whether the host reboots: %w", err)
	}
	return nil
}
