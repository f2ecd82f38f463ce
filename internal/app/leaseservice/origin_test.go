package leaseservice

import (
	"os"
	"slices"
	"testing"

	"dcm/internal/engine/host"
)

func TestOriginCache(t *testing.T) {
	h := &host.Host{Root: t.TempDir()}
	const cgroup = "/system.slice/job.service"
	dir := h.Path("sys/fs/cgroup", cgroup)
	if _, ok := identify(h, cgroup); ok {
		t.Error("a cgroup that does not exist is identified")
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	first, ok := identify(h, cgroup)
	if !ok {
		t.Fatal("a cgroup that exists is not identified")
	}
	var c originCache
	want := origin{lost: []string{"IPAddressDeny= of job.service"}}
	c.put(first, 1, want)
	for name, test := range map[string]struct {
		id     cgroupID
		loaded uint64
		known  bool
	}{
		"the same run":     {first, 1, true},
		"another run":      {cgroupID{cgroup, first.inode + 1}, 1, false},
		"another cgroup":   {cgroupID{"/user.slice", first.inode}, 1, false},
		"after a new load": {first, 2, false},
	} {
		if o, known := c.get(test.id, test.loaded); known != test.known || known && !slices.Equal(o.lost, want.lost) {
			t.Errorf("%s: %+v, known %t, want %t", name, o, known, test.known)
		}
	}
	for i := range uint64(2 * maxOrigins) {
		c.put(cgroupID{cgroup, i}, 1, want)
		c.put(cgroupID{string(rune('a' + i)), i}, 1, want)
	}
	if len(c.known) > maxOrigins {
		t.Errorf("%d origins are kept, want at most %d", len(c.known), maxOrigins)
	}
	c.put(first, 2, want)
	if len(c.known) != 1 {
		t.Errorf("after a new load %d origins are kept, want 1", len(c.known))
	}
}
