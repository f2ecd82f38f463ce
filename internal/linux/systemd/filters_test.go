package systemd

import (
	"slices"
	"testing"
)

func TestFilters(t *testing.T) {
	for _, c := range []struct {
		name  string
		value any
		want  bool
	}{
		{"DevicePolicy", "auto", false}, {"DevicePolicy", "closed", true}, {"DeviceAllow", [][]any{}, false}, {"DeviceAllow", [][]any{{"/dev/kfd", "rw"}}, true},
		{"IPAddressDeny", [][]any{{int32(2), []byte{0}, uint32(0)}}, true}, {"RestrictNetworkInterfaces", []any{false, []string{}}, false},
		{"RestrictNetworkInterfaces", []any{true, []string{"lo"}}, true}, {"BPFProgram", [][]any{}, false}, {"SocketBindDeny", nil, false},
	} {
		if got := says(c.name, c.value); got != c.want {
			t.Errorf("%s = %v holds: %t", c.name, c.value, got)
		}
	}
}

func TestUnitsOf(t *testing.T) {
	for cgroup, want := range map[string][]string{
		"/": nil, "/init.scope": {"init.scope"},
		"/system.slice/a.service/sub/x.service":                           {"system.slice", "a.service"},
		"/user.slice/user-1000.slice/session-4.scope":                     {"user.slice", "user-1000.slice", "session-4.scope"},
		"/user.slice/user-1000.slice/user@1000.service/app.slice/b.scope": {"user.slice", "user-1000.slice", "user@1000.service"},
		"/machine/qemu": nil,
	} {
		if got := UnitsOf(cgroup); !slices.Equal(got, want) {
			t.Errorf("units of %s: %s, want %s", cgroup, got, want)
		}
	}
}
