package lease

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"dcm/internal/engine/runstate"
	"dcm/internal/gpu/partition"
	"dcm/internal/leases/placement"
	"dcm/internal/linux/unitname"
)

func TestShares(t *testing.T) {
	k := newAllocator(newHost())
	k.Limit(Limits{Shares: 2})
	share := Request{Want: placement.Want{Partitions: 4, Among: []partition.Address{"0000:05:00.0"}}, Kind: unitname.SharedLease}
	first, second := acquire(t, k, alice, share), acquire(t, k, alice, share)
	if first.Choice.Reason != second.Choice.Reason {
		t.Errorf("choices: got %s and %s", first.Choice.Reason, second.Choice.Reason)
	}
	if _, err := k.Acquire(t.Context(), alice, share); err == nil {
		t.Error("a third lease got a partition that two share")
	}
	whole := ask(4)
	whole.Among = share.Among
	if _, err := k.Acquire(t.Context(), alice, whole); err == nil {
		t.Error("a shared partition was granted to an unshared lease")
	}
	if got, want := first.Notes[0], "capped at 48 GiB of 0000:05:00.0"; got != want {
		t.Errorf("note: got %q, want %q", got, want)
	}
}

// The number of leases that share a partition stays within the limit of each of them. A partition is
// filled before the next one is shared.
func TestSharesByNumber(t *testing.T) {
	k := newAllocator(newHost())
	one := func(of int) Request {
		return Request{Want: placement.Want{Partitions: 1, Place: placement.Spread}, Kind: unitname.SharedLease, Of: of}
	}
	if _, err := k.Acquire(t.Context(), alice, one(2)); err == nil || !strings.Contains(err.Error(), "shares = 1 in [leases]") {
		t.Errorf("sharing is not configured: got %v", err)
	}
	k.Limit(Limits{Shares: 3})
	for _, of := range []int{1, 4, 65} {
		if _, err := k.Acquire(t.Context(), alice, one(of)); err == nil {
			t.Errorf("a lease was granted that %d may share, want an error", of)
		}
	}
	for _, of := range []int{3, 2, 3, 2, 0, 3, 2} { // 0 is the configured limit, 3
		acquire(t, k, alice, one(of))
	}
	has := make(map[string]int)
	snapshot, _ := k.host.Partitions.Snapshot(t.Context())
	for _, h := range Allocations(snapshot) {
		for _, unit := range h.Units {
			n, _ := unitname.ParseLease(unit)
			has[fmt.Sprintf("%s of %d", h.Name, n.Of)]++
		}
	}
	want := map[string]int{"0000:05:00.0-0 of 3": 3, "0000:26:00.0-0 of 2": 2, "0000:05:00.0-1 of 3": 1, "0000:26:00.0-1 of 2": 1}
	if diff := cmp.Diff(want, has); diff != "" {
		t.Errorf("leases per partition (-want +got):\n%s", diff)
	}
}

func TestSharesOf(t *testing.T) {
	p := runstate.Partitions{Parts: []runstate.Part{
		{Name: "a-0", GPU: "0000:05:00.0", Render: "/dev/dri/renderD128", Memory: 24 << 30},
		{Name: "a-1", GPU: "0000:05:00.0", Render: "/dev/dri/renderD129", Memory: 24 << 30},
		{Name: "b-0", GPU: "0000:26:00.0", Render: "/dev/dri/renderD136", Memory: 96 << 30},
		{Name: "c-0", GPU: "0000:46:00.0", Render: "/dev/dri/renderD144"},
	}, Reservations: []runstate.Reservation{{Name: "w", Unit: "w@.service", Share: 2, Partitions: []string{"a-0"}}, {Name: "v", Unit: "v.service"}, {Name: "w-own", Unit: "w@own.service"}}}
	got := MemoryLimitsOf(p, map[string][]string{
		"dcm-share3-1000-00c0ffee.scope": {"/dev/kfd", "/dev/dri/renderD128", "/dev/dri/renderD129", "/dev/dri/renderD136"},
		"dcm-share2-1000-00c0ffee.scope": {"/dev/dri/renderD144"}, "dcm-lease-1000-00c0ffee.scope": {"/dev/dri/renderD128"},
		"w@x.service": {"/dev/dcm/w/render0"}, "w@own.service": {"/dev/dcm/w-own/render0"}, "v.service": {"/dev/dri/renderD128"}, "v@1.service": {"/dev/dri/renderD128"},
	})
	want := map[string]MemoryLimits{
		"dcm-share3-1000-00c0ffee.scope": {"0000:05:00.0": 16 << 30, "0000:26:00.0": 32 << 30}, "dcm-share2-1000-00c0ffee.scope": nil,
		"w@x.service": {"0000:05:00.0": 12 << 30},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("limits (-want +got):\n%s", diff)
	}
}
