package dbusapi

import (
	"strconv"
	"strings"

	"github.com/godbus/dbus/v5"
)

// Name, Path and Interface are the names of the daemon on the bus. The 1 is the version of the
// interface: its members are never changed, only new ones are added.
const (
	Name      = "org.deviceconfig.Manager1"
	Path      = dbus.ObjectPath("/org/deviceconfig/Manager1")
	Interface = "org.deviceconfig.Manager1"

	gpuPaths     = Path + "/gpu"
	gpuInterface = Interface + ".GPU"

	partInterface = Interface + ".Partition"
)

// SystemBus is the address of the system bus.
const SystemBus = "unix:path=/run/dbus/system_bus_socket"

// The polkit actions of packaging's policy file.
const (
	actionApply  = "org.deviceconfig.dcm.apply"
	actionUse    = "org.deviceconfig.dcm.use"
	actionReload = "org.deviceconfig.dcm.reload"
	actionLease  = "org.deviceconfig.dcm.lease"
)

// actionRelease is the name of Release in the journal. It is not an action of polkit.
const actionRelease = "release"

// actionEnter is the name of Enter in the journal. It is not an action of polkit.
const actionEnter = "enter"

// actionExtend is the name of Extend in the journal. It is not an action of polkit.
const actionExtend = "extend"

// Names of the D-Bus specification and of its services.
const (
	busName                 = "org.freedesktop.DBus"
	busPath                 = dbus.ObjectPath("/org/freedesktop/DBus")
	propertiesInterface     = "org.freedesktop.DBus.Properties"
	introspectableInterface = "org.freedesktop.DBus.Introspectable"
	emitsChanged            = "org.freedesktop.DBus.Property.EmitsChangedSignal"
	objectManagerInterface  = "org.freedesktop.DBus.ObjectManager"
	peerInterface           = "org.freedesktop.DBus.Peer"
	polkit                  = "org.freedesktop.PolicyKit1"
	polkitPath              = dbus.ObjectPath("/org/freedesktop/PolicyKit1/Authority")
	polkitAuthority         = "org.freedesktop.PolicyKit1.Authority"
)

// partPath returns the path of a partition's object, below its GPU's.
func partPath(address string, index int) dbus.ObjectPath {
	return gpuPath(address) + "/_" + dbus.ObjectPath(strconv.Itoa(index))
}

// gpuPath returns the path of a GPU's object. The address gets the prefix "_", since in many
// languages a name must not begin with a digit.
func gpuPath(address string) dbus.ObjectPath {
	clean := strings.Map(func(r rune) rune {
		if r >= '0' && r <= '9' || r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' {
			return r
		}
		return '_'
	}, address)
	return gpuPaths + "/" + dbus.ObjectPath("_"+clean)
}
