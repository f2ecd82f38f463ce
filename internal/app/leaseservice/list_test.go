package leaseservice

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"dcm/internal/frontends/status"
	"dcm/internal/linux/systemd"
)

func TestLeasesOf(t *testing.T) {
	began := time.Unix(1_800_000_000, 0)
	until := began.Add(time.Hour)
	units := []systemd.Tenant{
		{Unit: "dcm-share3-0-00000001.scope", Description: "Lease of 0000:05:00.0-2: sh"},
		{Unit: "dcm-exclusive-4000000000-00000002.scope", Description: "Lease of 0000:05:00.0-0 0000:05:00.0-1: python3"},
		{Unit: "dcm-lease-0-00000003.scope", Description: "Lease of 0000:05:00.0-3: sh"}, // has ended
		{Unit: "vllm.service", Description: "Lease of nothing: sh"},
	}
	got := leasesOf(units, map[string]systemd.Term{
		units[0].Unit:  {Began: began.Add(time.Minute)},
		units[1].Unit:  {Began: began, Limit: time.Hour},
		"vllm.service": {Began: began},
	})
	want := []status.Lease{
		{Lease: units[1].Unit, UID: 4_000_000_000, User: "uid 4000000000", Command: "python3", Partitions: []string{"0000:05:00.0-0", "0000:05:00.0-1"}, Exclusive: true, Since: began, Until: &until},
		{Lease: units[0].Unit, User: "root", Command: "sh", Partitions: []string{"0000:05:00.0-2"}, Share: 3, Since: began.Add(time.Minute)},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("leases (-want +got):\n%s", diff)
	}
}
