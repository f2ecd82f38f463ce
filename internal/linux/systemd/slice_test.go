package systemd

import (
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestUnitsInSlice_KnownLists(t *testing.T) {
	p := startPID1(t)
	p.set("dcm.slice", "active/active", "")
	p.property("dcm.slice", "SliceOf", []string{"a.scope", "b.scope", "over.scope"})
	p.set("a.scope", "active/running", "") // without DeviceAllow, so that a read fails
	p.set("b.scope", "active/running", "")
	p.property("b.scope", "DeviceAllow", []permission{{"/dev/dri/renderD129", "rwm"}})
	p.set("over.scope", "inactive/dead", "")
	c, ctx := p.dial()
	known := func(unit string) ([]string, bool) { return []string{"/dev/dri/renderD128"}, unit == "a.scope" }
	got, err := c.Cgroups.UnitsInSlice(ctx, "dcm.slice", known)
	want := []Tenant{{Unit: "a.scope", Active: "active", Allow: []string{"/dev/dri/renderD128"}}, {Unit: "b.scope", Active: "active", Allow: []string{"/dev/dri/renderD129"}}}
	if diff := cmp.Diff(want, got); diff != "" || err != nil {
		t.Errorf("tenants (-want +got), %v:\n%s", err, diff)
	}
	if _, err := c.Cgroups.UnitsInSlice(ctx, "dcm.slice", nil); err == nil {
		t.Error("an unknown list is not read")
	}
}
