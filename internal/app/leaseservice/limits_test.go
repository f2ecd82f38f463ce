package leaseservice

import (
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"dcm/internal/engine/config"
	"dcm/internal/engine/host"
	"dcm/internal/leases/lease"
)

func TestLimited_GroupsOfACaller(t *testing.T) {
	cfg := &config.Config{Leases: config.Leases{Groups: []config.GroupLimits{{Name: "4242"}, {Name: "no-such-group"}, {Name: "root"}}}}
	l := &Service{config: func() *config.Config { return cfg }}
	for _, tt := range []struct {
		name   string
		uid    uint32
		groups []uint32
		want   []string
	}{
		{"by the connection", 54321, []uint32{4242}, []string{"4242"}},
		{"by its name", 54321, []uint32{0}, []string{"root"}},
		{"by the group database", 0, nil, []string{"root"}},
		{"none", 54321, []uint32{7}, nil},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if got := l.groupsOf(tt.uid, tt.groups); !slices.Equal(got, tt.want) {
				t.Errorf("limits of %q, want %q", got, tt.want)
			}
		})
	}
}

func TestMember_OfADirectoryIsFoundByItsLease(t *testing.T) {
	p := processes{&host.Host{Root: t.TempDir()}}
	for path, text := range map[string]string{
		p.host.Path("sys/fs/cgroup/dcm.slice/dcm-lease-54321-4f1c09aa.scope/cgroup.procs"): "7\n8\n",
		p.host.Path("proc/7/status"): "Name:\tsh\nUid:\t54321\t54321\t54321\t54321\nGid:\t4242\t4242\t4242\t4242\nGroups:\t4243 4244 \n",
	} {
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	for group, want := range map[string]bool{"4242": true, "4244": true, "4245": false, "no-such-group": false} {
		if got := p.member(54321, group); got != want {
			t.Errorf("a member of %s: %t", group, got)
		}
	}
	if p.member(54322, "4242") {
		t.Error("another user is a member")
	}
}

func TestLimits_AreThoseOfTheConfiguration(t *testing.T) {
	got := limitsOf(&config.Config{Leases: config.Leases{PerUser: 4, Shares: 2, DefaultTime: time.Hour, MaxTime: 2 * time.Hour, Groups: []config.GroupLimits{{Name: "course", PerUser: 1, Total: 8, MaxTime: time.Minute}}}, UserReservations: make([]config.UserReservation, 1)})
	want := lease.Limits{Hours: true, PerUser: 4, Shares: 2, Default: time.Hour, Longest: 2 * time.Hour, Groups: []lease.GroupLimits{{Name: "course", PerUser: 1, Total: 8, Longest: time.Minute}}}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("limits (-want +got):\n%s", diff)
	}
}
