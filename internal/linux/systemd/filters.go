package systemd

import (
	"context"
	"reflect"
	"slices"
	"strings"

	"dcm/internal/linux/unitname"

	"github.com/godbus/dbus/v5"
)

// filters are the settings of systemd.resource-control(5) that hold by a program at the
// unit's cgroup, and so for nobody who has left it.
func filters() []string {
	return []string{"DevicePolicy", "DeviceAllow", "IPAddressAllow", "IPAddressDeny", "IPIngressFilterPath", "IPEgressFilterPath",
		"SocketBindAllow", "SocketBindDeny", "RestrictNetworkInterfaces", "BPFProgram"}
}

// Filters names those settings that a process of these units is held by:
// "IPAddressDeny= of a.service".
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

// says tells whether a setting holds anybody.
func says(name string, value any) bool {
	if name == "DevicePolicy" {
		return value != "auto"
	}
	v := reflect.ValueOf(value)
	if name == "RestrictNetworkInterfaces" { // whether those are let in, and which
		if v.Kind() != reflect.Slice || v.Len() != 2 {
			return false
		}
		v = reflect.ValueOf(v.Index(1).Interface())
	}
	return v.Kind() == reflect.Slice && v.Len() > 0
}

// UnitsOf are the units of the system's manager that a cgroup is of, the outermost first:
// what is below a user's manager is that one's.
func UnitsOf(cgroup string) []string {
	var out []string
	for name := range strings.SplitSeq(strings.Trim(cgroup, "/"), "/") {
		if !unitname.Valid(name) {
			break // a unit's own
		}
		out = append(out, name)
		if !strings.HasSuffix(name, ".slice") {
			break
		}
	}
	return out
}
