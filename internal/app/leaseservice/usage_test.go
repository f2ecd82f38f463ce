package leaseservice

import (
	"log/slog"
	"os"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"dcm/internal/engine/config"
	"dcm/internal/engine/host"
	"dcm/internal/engine/runstate"
	"dcm/internal/frontends/status"
	"dcm/internal/gpu/made"
	"dcm/internal/gpu/partition"
	"dcm/internal/leases/lease"
	"dcm/internal/linux/filelock"
)

func TestUsage_DuringARun(t *testing.T) {
	h := &host.Host{Root: t.TempDir()}
	if err := os.MkdirAll(h.Runtime(), 0o755); err != nil {
		t.Fatal(err)
	}
	release, err := filelock.TryLock(h.Locks().Run())
	if err != nil {
		t.Fatal(err)
	}
	p := NewPartitions(h, &config.Config{}, slog.New(slog.DiscardHandler))
	if u := p.usage(t.Context()); u.Why(status.PartUses) != "the GPUs are being partitioned" || len(u.Parts) > 0 {
		t.Errorf("in a run: %+v", u)
	}
	release()
	if u := p.usage(t.Context()); u.Why(status.PartUses) == "the GPUs are being partitioned" || u.Why(status.PartHolders) == "" {
		t.Errorf("after the change: %+v", u)
	}
}

// Of a GPU in the mode of leases, the partitions that no lease has are free for others.
func TestHoldersOf_ModeOfLeases(t *testing.T) {
	const gpu, unit = partition.Address("0000:65:00.0"), "dcm-lease-0-00000001.scope"
	s := lease.Snapshot{
		Parts:    []runstate.Part{{Name: "a", GPU: gpu, Render: "/dev/dri/renderD128"}, {Name: "b", GPU: gpu, Render: "/dev/dri/renderD129"}},
		Units:    []lease.UnitDevices{{Unit: unit, Active: true, Allowed: []string{"/dev/dri/renderD128"}}},
		Switched: map[partition.Address]made.Name{gpu: {GPU: gpu, Profile: "CPX", Rest: partition.SPX}},
	}
	want := map[string][]string{"a": {unit}, "b": nil}
	if diff := cmp.Diff(want, holdersOf(s), cmpopts.EquateEmpty()); diff != "" {
		t.Errorf("holders (-want +got):\n%s", diff)
	}
}

// The present hours of a reservation for a user are shown at the partitions that no unit holds.
func TestHoldersOf_UserReservation(t *testing.T) {
	const gpu, unit = partition.Address("0000:65:00.0"), "dcm-lease-0-00000001.scope"
	s := lease.Snapshot{
		Parts: []runstate.Part{{Name: "a", GPU: gpu, Render: "/dev/dri/renderD128"}, {Name: "b", GPU: gpu, Render: "/dev/dri/renderD129"}},
		Units: []lease.UnitDevices{{Unit: unit, Active: true, Allowed: []string{"/dev/dri/renderD128"}}},
		Hours: []lease.Hours{{User: "alice", UID: 1000, GPUs: []partition.Address{gpu}}},
	}
	want := map[string][]string{"a": {unit}, "b": {"reservation alice"}}
	if diff := cmp.Diff(want, holdersOf(s.WithHours()), cmpopts.EquateEmpty()); diff != "" {
		t.Errorf("holders (-want +got):\n%s", diff)
	}
}
