package systemd

import (
	"slices"

	"github.com/godbus/dbus/v5"
)

// rule says which signals the bus shall pass. PID 1 signals each change of each
// unit, and a restart of many clients is full of them: a process that takes them
// all in costs the clients time.
type rule []dbus.MatchOption

func (r rule) equal(other rule) bool { return slices.Equal(r, other) }

// managerRules are for what may make PID 1 lose the other signals.
func managerRules() []rule {
	return []rule{
		{dbus.WithMatchSender("org.freedesktop.DBus"), dbus.WithMatchMember("NameOwnerChanged"), dbus.WithMatchArg(0, service)},
		{dbus.WithMatchSender(service), dbus.WithMatchInterface(managerInterface), dbus.WithMatchMember("Reloading")},
	}
}

// unitRules are for one unit's changes and the end of its jobs.
func unitRules(name string) []rule {
	return []rule{
		append(changed(), dbus.WithMatchObjectPath(unitPath(name))),
		{dbus.WithMatchSender(service), dbus.WithMatchInterface(managerInterface), dbus.WithMatchMember("JobRemoved"), dbus.WithMatchArg(2, name)},
	}
}

// anyUnitRules are for the changes of all units, the end of a job among them.
func anyUnitRules() []rule {
	return []rule{append(changed(), dbus.WithMatchPathNamespace(unitPaths))}
}

// unitRemovedRules are for the units that go, and for the ends of all jobs.
func unitRemovedRules() []rule {
	return []rule{
		{dbus.WithMatchSender(service), dbus.WithMatchInterface(managerInterface), dbus.WithMatchMember("UnitRemoved")},
		{dbus.WithMatchSender(service), dbus.WithMatchInterface(managerInterface), dbus.WithMatchMember("JobRemoved")},
	}
}

func changed() rule {
	return rule{dbus.WithMatchSender(service), dbus.WithMatchInterface(properties),
		dbus.WithMatchMember("PropertiesChanged"), dbus.WithMatchArg(0, unitInterface)}
}
