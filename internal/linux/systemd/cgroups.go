package systemd

import (
	"context"
	"reflect"
	"slices"

	"github.com/godbus/dbus/v5"
)

// Cgroups reads and applies the properties of units that concern their cgroups.
type Cgroups struct{ t *transport }

// ControlGroup returns the path of a unit's cgroup from the root of the tree, "" if the unit has
// none or is inactive.
func (g Cgroups) ControlGroup(ctx context.Context, unit string) (path string, err error) {
	kind := cgroupInterface(unit)
	if kind == "" {
		return "", nil
	}
	if err = g.t.property(ctx, unit, kind, "ControlGroup", &path); err == nil {
		return path, nil
	}
	return "", g.t.unloadedSince(ctx, unit, err)
}

// filters returns the settings of systemd.resource-control(5) that BPF programs at the unit's
// cgroup enforce. They do not apply to a process that has left the cgroup.
func filters() []string {
	return []string{"DevicePolicy", "DeviceAllow", "IPAddressAllow", "IPAddressDeny", "IPIngressFilterPath", "IPEgressFilterPath",
		"SocketBindAllow", "SocketBindDeny", "RestrictNetworkInterfaces", "BPFProgram"}
}

// Filters returns which of these settings restrict one of the units, as "IPAddressDeny= of
// a.service".
func (g Cgroups) Filters(ctx context.Context, units []string) ([]string, error) {
	found := make([][]string, len(units))
	err := each(len(units), func(i int) error {
		kind := cgroupInterface(units[i])
		if kind == "" {
			return nil
		}
		var all map[string]dbus.Variant
		if err := g.t.call(ctx, &all, unitPath(units[i]), properties+".GetAll", kind); err != nil {
			return err
		}
		for _, name := range filters() {
			if v, ok := all[name]; ok && says(name, v.Value()) {
				found[i] = append(found[i], name+"= of "+units[i])
			}
		}
		return nil
	})
	return slices.Concat(found...), err
}

// says reports whether the value of a setting restricts anything.
func says(name string, value any) bool {
	if name == "DevicePolicy" {
		return value != "auto"
	}
	v := reflect.ValueOf(value)
	if name == "RestrictNetworkInterfaces" { // (allow list, interfaces)
		if v.Kind() != reflect.Slice || v.Len() != 2 {
			return false
		}
		v = reflect.ValueOf(v.Index(1).Interface())
	}
	return v.Kind() == reflect.Slice && v.Len() > 0
}
