package leaseservice

import (
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"

	"dcm/internal/engine/host"
	"dcm/internal/linux/systemd"
)

func TestDeviceLists(t *testing.T) {
	const one, other, service = "dcm-lease-0-00000001.scope", "dcm-lease-0-00000002.scope", "alpha.service"
	h := &host.Host{Root: t.TempDir()}
	list := []systemd.Tenant{{Unit: one, Allow: []string{"/dev/dri/renderD128"}}, {Unit: other}, {Unit: service, Allow: []string{"/dev/dcm/alpha/render0"}}}
	var d deviceLists
	loaded := uint64(1)
	known := func() (out []string) {
		for _, t := range list {
			if paths, ok := d.of(t.Unit, loaded); ok && !editedUnits(h)(t.Unit) && slices.Equal(paths, t.Allow) {
				out = append(out, t.Unit)
			}
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

// The work for a lease must not grow with the number of leases: one that is known is not resolved.
func TestResolveLists_OnlyUnknown(t *testing.T) {
	var list []systemd.Tenant
	for i := range 60 {
		list = append(list, systemd.Tenant{Unit: fmt.Sprintf("dcm-lease-0-%08x.scope", i), Allow: []string{"/dev/kfd", "/dev/link"}})
	}
	list = append(list, systemd.Tenant{Unit: "alpha.service", Allow: []string{"/dev/dcm/alpha/render0"}})
	var d deviceLists
	calls := func() (n int) {
		read := slices.Clone(list) // as PID 1 reports it
		resolveLists(read, func(unit string) ([]string, bool) { return d.of(unit, 1) }, func(path string) string {
			n++
			return path + "-resolved"
		})
		d.keep(read, 1)
		for _, u := range read {
			if slices.ContainsFunc(u.Allow, func(node string) bool { return !strings.HasSuffix(node, "-resolved") }) {
				t.Errorf("%s: got %q, want its links resolved once", u.Unit, u.Allow)
			}
		}
		return n
	}
	if got := calls(); got != 121 {
		t.Errorf("first reading: got %d paths resolved, want all 121", got)
	}
	list = append(list, systemd.Tenant{Unit: "dcm-lease-0-0000ffff.scope", Allow: []string{"/dev/kfd", "/dev/link"}})
	if got := calls(); got != 3 {
		t.Errorf("with one more lease: got %d paths resolved, want its two and that of the service", got)
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
