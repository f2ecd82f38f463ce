package leaseservice

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"dcm/internal/engine/host"
)

func TestReloads_SharedAndLimited(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var mu sync.Mutex
		var at []time.Duration
		began := time.Now()
		r := newReloads(5*time.Second, func(context.Context) error {
			mu.Lock()
			defer mu.Unlock()
			at = append(at, time.Since(began))
			return nil
		})
		for range 3 {
			var all sync.WaitGroup
			for range 10 {
				all.Go(func() {
					if err := r.reload(t.Context()); err != nil {
						t.Error(err)
					}
				})
			}
			all.Wait()
		}
		if len(at) > 6 {
			t.Errorf("reloads for 30 calls in 3 rounds: got %d, want at most 2 in each round", len(at))
		}
		for i := 1; i < len(at); i++ {
			if at[i]-at[i-1] < 5*time.Second {
				t.Errorf("reloads at %s: want an interval of at least 5s", at)
			}
		}
	})
}

func TestReloads_FailureIsNotShared(t *testing.T) {
	failure := errors.New("no bus")
	calls := 0
	r := newReloads(0, func(context.Context) error {
		if calls++; calls == 1 {
			return failure
		}
		return nil
	})
	if err := r.reload(t.Context()); !errors.Is(err, failure) {
		t.Errorf("first reload: got %v, want %v", err, failure)
	}
	if err := r.reload(t.Context()); err != nil || calls != 2 {
		t.Errorf("second reload: got %v after %d calls, want success after 2", err, calls)
	}
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	r.turn <- struct{}{}
	if err := r.reload(ended); !errors.Is(err, context.Canceled) {
		t.Errorf("reload of a caller that has left: got %v", err)
	}
}

func TestWriteLimit(t *testing.T) {
	const unit = "dcm-lease-1000-4f1c09aa.scope"
	h := &host.Host{Root: t.TempDir()}
	dir := h.Path(transientDir)
	if err := os.MkdirAll(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct{ name, unit, limit, text string }{
		{"ended", unit, "1", "has ended"},
		{"no lease", "../x.scope", "1", "is not the name of a lease"},
		{"no number", unit, "1h", "invalid time limit"},
		{"zero", unit, "0", "invalid time limit"},
	} {
		if err := WriteLimit(h, tt.unit, tt.limit); err == nil || !strings.Contains(err.Error(), tt.text) {
			t.Errorf("%s: got %v, want %q", tt.name, err, tt.text)
		}
	}
	if left, err := os.ReadDir(dir); err != nil || len(left) > 0 {
		t.Errorf("files after errors: %v, %v", left, err)
	}
	if err := os.WriteFile(filepath.Join(dir, unit), nil, 0o644); err != nil {
		t.Fatal(err)
	}
	for _, limit := range []string{"7200000000", "10800000000"} {
		if err := WriteLimit(h, unit, limit); err != nil {
			t.Fatal(err)
		}
		text, err := os.ReadFile(filepath.Join(dir, unit+".d", limitFile))
		if want := "[Scope]\nRuntimeMaxSec=" + limit + "us\n"; err != nil || string(text) != want {
			t.Errorf("drop-in: got %q, %v, want %q", text, err, want)
		}
	}
}
