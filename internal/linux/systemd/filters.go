package systemd

import (
	"context"
	"reflect"
	"slices"
	"strings"

	"dcm/internal/linux/unitname"

	"github.com/godbus/dbus/v5"
)

// filters returns the settings of systemd.resource-control(5) that BPF programs at the unit's
// cgroup enforce. They do not apply to a process that has left the cgroup.
func filters() []string {
	return []string{"DevicePolicy", "DeviceAllow", "IPAddressAllow", "IPAddressDeny", "IPIngressFilterPath", "IPEgressFilterPath",
		"SocketBindAllow", "SocketBindDeny", "RestrictNetworkInterfaces", "BPFProgram"}
}

// Filters returns the effective ones of those settings in these units, as "IPAddressDeny= of
// a.service".
func (c *Conn) Filters(ctx context.Context, units []string) ([]string, error) {
	found := make([][]string, len(units))
	err := each(len(units), func(i int) error {
		kind := kindInterface(units[i])
		if kind == "" {
			return nil
		}
		var all map[string]dbus.Variant
		if err := c.call(ctx, &all, unitPath(units[i]), properties+".GetAll", kind); err != nil {
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

// UnitsOf returns the units of the system's manager on the path of a cgroup, the outermost
// first. Units of a user's manager are not included.
func UnitsOf(cgroup string) []string {
	var out []string
	for name := range strings.SplitSeq(strings.Trim(cgroup, "/"), "/") {
		if !unitname.Valid(name) {
			break // a cgroup below a unit
		}
		out = append(out, name)
		if !strings.HasSuffix(name, ".slice") {
			break
		}
	}
	return out
}
