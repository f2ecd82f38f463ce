package systemd

import (
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestUnitsInSlice(t *testing.T) {
	p := startPID1(t)
	p.set("dcm.slice", "active/active", "")
	p.property("dcm.slice", "SliceOf", []string{"a.scope", "b.scope", "over.scope"})
	p.set("a.scope", "active/running", "") // without DeviceAllow, so that a read fails
	p.set("b.scope", "active/running", "")
	p.property("b.scope", "DeviceAllow", []permission{{"/dev/dri/renderD129", "rwm"}})
	p.set("over.scope", "inactive/dead", "")
	c, ctx := p.dial()
	got, err := c.Cgroups.UnitsInSlice(ctx, "dcm.slice", false)
	want := []Tenant{{Unit: "a.scope", Active: "active"}, {Unit: "b.scope", Active: "active"}}
	if diff := cmp.Diff(want, got); diff != "" || err != nil {
		t.Errorf("tenants without lists (-want +got), %v:\n%s", err, diff)
	}
	got, err = c.Cgroups.Tenants(ctx, []string{"over.scope", "b.scope"}, true)
	want = []Tenant{{Unit: "b.scope", Active: "active", Allow: []string{"/dev/dri/renderD129"}}}
	if diff := cmp.Diff(want, got); diff != "" || err != nil {
		t.Errorf("tenants with lists (-want +got), %v:\n%s", err, diff)
	}
	if _, err := c.Cgroups.UnitsInSlice(ctx, "dcm.slice", true); err == nil {
		t.Error("the list of a.scope is not read")
	}
}
