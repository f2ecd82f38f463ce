package systemd

import (
	"strings"

	sd "github.com/coreos/go-systemd/v22/dbus"
	"github.com/godbus/dbus/v5"
)

// The names of org.freedesktop.systemd1(5).
const (
	service          = "org.freedesktop.systemd1"
	managerPath      = dbus.ObjectPath("/org/freedesktop/systemd1")
	unitPaths        = dbus.ObjectPath("/org/freedesktop/systemd1/unit")
	managerInterface = service + ".Manager"
	unitInterface    = service + ".Unit"
	serviceInterface = service + ".Service"
	properties       = "org.freedesktop.DBus.Properties"
)

// unitPath returns the object path of a unit. The unit need not be loaded: PID 1 loads it when
// the object is used.
func unitPath(name string) dbus.ObjectPath {
	return dbus.ObjectPath(string(unitPaths) + "/" + sd.PathBusEscape(name))
}

// cgroupInterface returns the D-Bus interface with the properties of a unit's cgroup, "" if units
// of that type have none.
func cgroupInterface(unit string) string {
	for suffix, name := range map[string]string{
		".service": "Service", ".scope": "Scope", ".slice": "Slice", ".socket": "Socket", ".mount": "Mount", ".swap": "Swap",
	} {
		if strings.HasSuffix(unit, suffix) {
			return service + "." + name
		}
	}
	return ""
}
