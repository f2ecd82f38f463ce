package lease

import (
	"strings"
	"testing"
)

func TestRelease_OwnerAndRootOnly(t *testing.T) {
	h := newHost()
	k := newAllocator(h)
	hers, another := acquire(t, k, alice, ask(1)), acquire(t, k, alice, ask(1))
	for _, tt := range []struct {
		uid        uint32
		unit, text string
	}{
		{1001, hers.Unit, "is the lease of user 1000"},
		{1000, "sshd.service", "is not the name of a lease"},
		{0, "dcm-lease-1000-00000000.scope", "there is no lease"},
		{1000, hers.Unit, ""},
		{0, another.Unit, ""},
	} {
		err := k.Release(t.Context(), tt.uid, tt.unit)
		if (err == nil) != (tt.text == "") || err != nil && !strings.Contains(err.Error(), tt.text) {
			t.Errorf("user %d releases %s: %v, want %q", tt.uid, tt.unit, err, tt.text)
		}
	}
	if len(h.tenants) > 0 {
		t.Errorf("left is %+v", h.tenants)
	}
}

func TestRelease_ComparesTheOwnerBeforeAnyWork(t *testing.T) {
	h := newHost()
	k := newAllocator(h)
	l := acquire(t, k, alice, ask(1))
	before := h.calls
	for _, unit := range []string{l.Unit, "dcm-lease-1000-00000000.scope", "sshd.service"} {
		if err := k.Release(t.Context(), 1001, unit); err == nil {
			t.Errorf("user 1001 releases %s", unit)
		}
	}
	if h.calls != before {
		t.Errorf("%d queries were made for a caller that may not release it", h.calls-before)
	}
}

func TestWhatWouldBeGivenIsNot(t *testing.T) {
	h := newHost()
	h.changing = true // a query of the free partitions does not wait
	c, err := newAllocator(h).Consider(t.Context(), alice, ask(2))
	if err != nil || len(c.Partitions) != 2 || len(h.tenants) > 0 {
		t.Errorf("%+v, %v; given is %+v", c, err, h.tenants)
	}
}

func TestReserve_LeavesLeasesAlone(t *testing.T) {
	var want Reservation
	want.Name, want.Partitions = "a", 7
	got, err := Reserve(parts(), []Reservation{want}, nil, []string{"/dev/kfd", "/dev/dri/renderD130"})
	if err != nil || len(got["a"].Partitions) != 7 || strings.Contains(strings.Join(got["a"].Nodes, " "), "renderD130") {
		t.Errorf("%+v, %v", got, err)
	}
}
