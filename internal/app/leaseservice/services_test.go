package leaseservice

import (
	"context"
	"log/slog"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"dcm/internal/engine/host"
	"dcm/internal/engine/runstate"
	"dcm/internal/frontends/status"
	"dcm/internal/linux/unitname"
)

// The counters of a service are logged a second after its start and at its end, also if it is restarted
// between two looks, and if the daemon has started after it.
func TestServices_Counters(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var mu sync.Mutex
		var got []string
		running, dirs := make(map[string]runningService), []string{"dcm.slice"}
		changed := make(chan struct{}, 1)
		edit := func(change func()) {
			mu.Lock()
			change()
			mu.Unlock()
			changed <- struct{}{}
			synctest.Wait()
		}
		s := services{
			list: func() (map[string]runningService, []string) {
				mu.Lock()
				defer mu.Unlock()
				return maps.Clone(running), slices.Clone(dirs)
			},
			watch: func(context.Context, []string) (<-chan struct{}, error) { return changed, nil },
			record: func(_ context.Context, l status.Lease, at string) {
				mu.Lock()
				defer mu.Unlock()
				got = append(got, at+" "+l.Lease)
			},
			over: func(_ context.Context, unit string) {
				mu.Lock()
				defer mu.Unlock()
				got = append(got, "over "+unit)
			},
			log: slog.New(slog.DiscardHandler),
		}
		service := func(unit string, cgroup uint64) {
			running[unit] = runningService{status.Lease{Lease: unit, Partitions: []string{"a"}}, cgroup}
		}
		service("old", 1)
		ctx, cancel := context.WithCancel(t.Context())
		go s.run(ctx)
		synctest.Wait()
		time.Sleep(2 * countDelay)
		edit(func() { service("new", 2); dirs = append(dirs, "dcm-new.slice") })
		time.Sleep(2 * countDelay)
		edit(func() { service("new", 3) })
		edit(func() { delete(running, "new") }) // too short
		edit(func() { delete(running, "old") })
		want := []string{"start old", "start new", "end new", "over new", "over new", "end old", "over old"}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("entries (-want +got):\n%s", diff)
		}
		cancel()
		synctest.Wait()
	})
}

func TestRunningServices(t *testing.T) {
	h := &host.Host{Root: t.TempDir()}
	slice := h.Path("sys/fs/cgroup", unitname.Slice)
	for _, dir := range []string{"alpha.service/sub.service", "other.service", "dcm-lease-0-00000001.scope", "dcm-llm.slice/note@1.service"} {
		if err := os.MkdirAll(filepath.Join(slice, dir), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.MkdirAll(h.Runtime(), 0o755); err != nil {
		t.Fatal(err)
	}
	list := `{"version": 1, "reservations": [{"unit": "alpha.service", "partitions": ["a", "b"]}, {"unit": "note@.service", "partitions": ["c"], "share": 2}]}`
	if err := os.WriteFile(filepath.Join(h.Runtime(), runstate.PartitionsFile), []byte(list), 0o644); err != nil {
		t.Fatal(err)
	}
	running, dirs := runningServices(h)
	var got []string
	for _, unit := range slices.Sorted(maps.Keys(running)) {
		got = append(got, unit+" "+strings.Join(running[unit].Partitions, " "))
	}
	if diff := cmp.Diff([]string{"alpha.service a b", "note@1.service c"}, got); diff != "" {
		t.Errorf("services (-want +got):\n%s", diff)
	}
	if running["note@1.service"].Share != 2 || len(dirs) != 2 || !strings.HasSuffix(dirs[1], "dcm-llm.slice") {
		t.Errorf("share %d, directories %q", running["note@1.service"].Share, dirs)
	}
}
