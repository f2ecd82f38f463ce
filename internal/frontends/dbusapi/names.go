package dbusapi

import (
	"strconv"
	"strings"

	"github.com/godbus/dbus/v5"
)

// Where dcm is on the bus. The 1 is the version of the interface: within it things
// are added, never changed.
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

// The polkit actions, as the package's policy file declares them.
const (
	actionApply  = "org.deviceconfig.dcm.apply"
	actionUse    = "org.deviceconfig.dcm.use"
	actionReload = "org.deviceconfig.dcm.reload"
	actionLease  = "org.deviceconfig.dcm.lease"
)

// actionRelease is what the journal calls the one that polkit is not asked about.
const actionRelease = "release"

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

// Errors that calls end with.
const (
	errorFailed        = Interface + ".Error.Failed"        // the reason is the text
	errorConfiguration = Interface + ".Error.Configuration" // one problem a line
	errorInsufficient  = Interface + ".Error.Short"         // not enough is free now
	errorImpossible    = Interface + ".Error.Impossible"    // nor will it ever be
	errorOvertaken     = Interface + ".Error.Overtaken"     // another profile was selected meanwhile

	errorDenied      = "org.freedesktop.DBus.Error.AccessDenied"
	errorInteractive = "org.freedesktop.DBus.Error.InteractiveAuthorizationRequired"
	errorArguments   = "org.freedesktop.DBus.Error.InvalidArgs"
	errorLimit       = "org.freedesktop.DBus.Error.LimitsExceeded"
	errorReadOnly    = "org.freedesktop.DBus.Error.PropertyReadOnly"
	errorUnknownProp = "org.freedesktop.DBus.Error.UnknownProperty"
	errorUnknownIntf = "org.freedesktop.DBus.Error.UnknownInterface"
	errorNoService   = "org.freedesktop.DBus.Error.ServiceUnknown"
	errorNoReply     = "org.freedesktop.DBus.Error.NoReply"
	errorNoOwner     = "org.freedesktop.DBus.Error.NameHasNoOwner"
)

// partPath is the object of a partition, below its GPU's.
func partPath(address string, index int) dbus.ObjectPath {
	return gpuPath(address) + "/_" + dbus.ObjectPath(strconv.Itoa(index))
}

// gpuPath is the object of the GPU at a PCI address. The digit that an address
// begins with must not begin a name in many a language's bindings, hence the "_".
func gpuPath(address string) dbus.ObjectPath {
	clean := strings.Map(func(r rune) rune {
		if r >= '0' && r <= '9' || r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' {
			return r
		}
		return '_'
	}, address)
	return gpuPaths + "/" + dbus.ObjectPath("_"+clean)
}
