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
		{1001, hers.Unit, "is the lease of user 1000; only that user"},
		{1000, "sshd.service", "is not the name of a lease"},
		{0, "dcm-lease-1000-00000000.scope", "there is no lease"},
		{1000, hers.Unit, ""},
		{0, another.Unit, ""},
	} {
		err := k.Release(t.Context(), tt.uid, tt.unit)
		if (err == nil) != (tt.text == "") || err != nil && !strings.Contains(err.Error(), tt.text) {
			t.Errorf("Release of %[2]s by user %[1]d: got %[3]v, want %[4]q", tt.uid, tt.unit, err, tt.text)
		}
	}
	if len(h.tenants) > 0 {
		t.Errorf("units: got %+v", h.tenants)
	}
}

func TestRelease_ChecksOwnerFirst(t *testing.T) {
	h := newHost()
	k := newAllocator(h)
	l := acquire(t, k, alice, ask(1))
	before := h.calls
	for _, unit := range []string{l.Unit, "dcm-lease-1000-00000000.scope", "sshd.service"} {
		if err := k.Release(t.Context(), 1001, unit); err == nil {
			t.Errorf("user 1001 released %s", unit)
		}
	}
	if h.calls != before {
		t.Errorf("queries for a caller without permission: got %d, want 0", h.calls-before)
	}
}

func TestConsider_AllocatesNothing(t *testing.T) {
	h := newHost()
	h.changing = true // Consider does not take the lock
	c, err := newAllocator(h).Consider(t.Context(), alice, ask(2))
	if err != nil || len(c.Partitions) != 2 || len(h.tenants) > 0 {
		t.Errorf("got %+v, %v; units: %+v", c, err, h.tenants)
	}
}

func TestReserve_KeepsLeases(t *testing.T) {
	var want Reservation
	want.Name, want.Partitions = "a", 7
	got, err := Reserve(parts(), []Reservation{want}, nil, []string{"/dev/kfd", "/dev/dri/renderD130"})
	if err != nil || len(got["a"].Partitions) != 7 || strings.Contains(strings.Join(got["a"].Nodes, " "), "renderD130") {
		t.Errorf("%+v, %v", got, err)
	}
}
