package leases

import (
	"os"
	"strings"
	"testing"

	"dcm/internal/engine/host"
	"dcm/internal/linux/unitname"
)

func TestFindLease(t *testing.T) {
	h := &host.Host{Root: t.TempDir()}
	for _, unit := range []string{"dcm-lease-1000-4f1c09aa.scope", "dcm-share3-1001-4f2209aa.scope", "dcm-exclusive-0-acdde8ec.scope", "other.service"} {
		if err := os.MkdirAll(h.Path("sys/fs/cgroup", unitname.Slice, unit), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	for _, c := range []struct{ given, unit, err string }{
		{"dcm-lease-1000-4f1c09aa.scope", "dcm-lease-1000-4f1c09aa.scope", ""},
		{"dcm-lease-0-00000000.scope", "dcm-lease-0-00000000.scope", ""}, // the daemon says that it has ended
		{"acdde8ec", "dcm-exclusive-0-acdde8ec.scope", ""},
		{"4f1", "dcm-lease-1000-4f1c09aa.scope", ""},
		{"dcm-share", "dcm-share3-1001-4f2209aa.scope", ""},
		{"4f", "", "4f is the beginning of 2 leases: dcm-lease-1000-4f1c09aa.scope, dcm-share3-1001-4f2209aa.scope"},
		{"9aa", "", "there is no lease 9aa"},
		{"other.service", "", "there is no lease other.service"},
		{"", "", `there is no lease ""`},
	} {
		unit, err := findLease(h, c.given)
		if unit != c.unit || (err == nil) != (c.err == "") || err != nil && !strings.Contains(err.Error(), c.err) {
			t.Errorf("%q: got %q, %v, want %q, %q", c.given, unit, err, c.unit, c.err)
		}
	}
}
