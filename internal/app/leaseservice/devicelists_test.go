package leaseservice

import (
	"os"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"

	"dcm/internal/engine/host"
	"dcm/internal/leases/lease"
)

func TestDeviceLists(t *testing.T) {
	const one, other, service = "dcm-lease-0-00000001.scope", "dcm-lease-0-00000002.scope", "alpha.service"
	h := &host.Host{Root: t.TempDir()}
	list := []lease.UnitDevices{{Unit: one, Active: true, Allowed: []string{"/dev/dri/renderD128"}}, {Unit: other, Active: true}, {Unit: service, Active: true, Allowed: []string{"/dev/dri/renderD129"}}}
	var d deviceLists
	loaded := uint64(1)
	known := func() (out []string) {
		found, unknown := d.split([]string{one, other, service}, loaded, editedUnits(h))
		for _, u := range found {
			out = append(out, u.Unit)
			if i := slices.IndexFunc(list, func(l lease.UnitDevices) bool { return l.Unit == u.Unit }); !cmp.Equal(list[i], u) {
				t.Errorf("%s: got %+v, want %+v", u.Unit, u, list[i])
			}
		}
		if len(found)+len(unknown) != 3 {
			t.Errorf("known are %+v and unknown %q, want three units", found, unknown)
		}
		return out
	}
	if got := known(); got != nil {
		t.Errorf("before PID 1 was asked %q are known", got)
	}
	d.keep(list, loaded)
	if got, want := known(), []string{one, other}; !slices.Equal(got, want) {
		t.Errorf("known are %q, want %q: a service's list changes with its restart", got, want)
	}
	for _, dir := range []string{"run/systemd/transient", "run/systemd/system.control", "etc/systemd/system.control"} {
		dir = h.Path(dir, other+".d")
		if err := os.MkdirAll(dir, 0o755); err != nil {
			t.Fatal(err)
		}
		if got, want := known(), []string{one}; !slices.Equal(got, want) {
			t.Errorf("after systemctl set-property, which wrote %s, known are %q, want %q", dir, got, want)
		}
		if err := os.Remove(dir); err != nil {
			t.Fatal(err)
		}
	}
	loaded = 2
	if got := known(); got != nil {
		t.Errorf("after a daemon-reload, which loads drop-ins, known are %q", got)
	}
	d.keep(list[2:], loaded)
	if got := known(); got != nil {
		t.Errorf("a lease that has ended is known: %q", got)
	}
}

func TestServiceRuns(t *testing.T) {
	var s serviceRuns
	if s.has("job.service", 0) {
		t.Error("a service that was never looked at is known")
	}
	s.add("job.service", 100)
	if !s.has("job.service", 100) || s.has("job.service", 200) || s.has("other.service", 100) {
		t.Errorf("the runs are %v, want job.service at 100", s.runs)
	}
	for i := range uint64(2 * maxServiceRuns) {
		s.add(string(rune('a'+i)), i)
	}
	if len(s.runs) > maxServiceRuns {
		t.Errorf("%d runs are kept, want at most %d", len(s.runs), maxServiceRuns)
	}
}
