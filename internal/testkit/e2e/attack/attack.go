// Package attack has the programs of hostile users, for a test container. They flood the
// daemon with calls, execute another program while they wait, or exit while systemd moves
// them, so that another process gets their PID.
package attack

import "github.com/godbus/dbus/v5"

const (
	bus    = "/run/dbus/system_bus_socket"
	name   = "org.deviceconfig.Manager1"
	object = dbus.ObjectPath("/org/deviceconfig/Manager1")

	concurrent = 16  // calls
	waiters    = 160 // more requests than one user may have in the wait queue
)
