package systemd

import (
	"slices"

	"github.com/godbus/dbus/v5"
)

// rule is a match rule of the bus. PID 1 signals each change of each unit, and a process that
// receives all of them slows down a restart of many clients.
type rule []dbus.MatchOption

func (r rule) equal(other rule) bool { return slices.Equal(r, other) }

// managerRules match the events during which other signals may be lost.
func managerRules() []rule {
	return []rule{
		{dbus.WithMatchSender("org.freedesktop.DBus"), dbus.WithMatchMember("NameOwnerChanged"), dbus.WithMatchArg(0, service)},
		{dbus.WithMatchSender(service), dbus.WithMatchInterface(managerInterface), dbus.WithMatchMember("Reloading")},
	}
}

// unitRules match the changes of a unit and the ends of its jobs.
func unitRules(name string) []rule {
	return []rule{
		append(changed(), dbus.WithMatchObjectPath(unitPath(name))),
		{dbus.WithMatchSender(service), dbus.WithMatchInterface(managerInterface), dbus.WithMatchMember("JobRemoved"), dbus.WithMatchArg(2, name)},
	}
}

// anyUnitRules match the changes of all units, including the ends of their jobs.
func anyUnitRules() []rule {
	return []rule{append(changed(), dbus.WithMatchPathNamespace(unitPaths))}
}

// unitRemovedRules match the unload of units and the ends of all jobs.
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
