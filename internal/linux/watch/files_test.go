package watch

import (
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"runtime"
	"runtime/pprof"
	"testing"
	"time"

	"github.com/fsnotify/fsnotify"
	"github.com/google/go-cmp/cmp"

	"dcm/internal/testkit/testdeadline"
)

func wait(t *testing.T, ch <-chan struct{}) (open bool) {
	t.Helper()
	select {
	case _, open = <-ch:
		return open
	case <-testdeadline.After(10 * time.Second):
		t.Fatal("no signal within 10 s")
		return false
	}
}

// files starts Files for the test, and waits for its end, so that no goroutine remains.
func files(t *testing.T, dir string, quiet time.Duration) <-chan struct{} {
	t.Helper()
	ch, err := Files(t.Context(), []string{dir}, quiet, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		for range ch {
		}
	})
	return ch
}

func TestFiles(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "dcm.toml.d")
	ch := files(t, dir, time.Millisecond)
	if err := os.Mkdir(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	wait(t, ch)
	for i := range 3 {
		if err := os.WriteFile(filepath.Join(dir, fmt.Sprint(i)), nil, 0o644); err != nil {
			t.Fatal(err)
		}
		wait(t, ch)
	}
}

func TestFiles_Burst(t *testing.T) {
	dir := t.TempDir()
	ch := files(t, dir, 200*time.Millisecond)
	// If the machine pauses during a burst, there are two signals.
	for range 5 {
		for i := range 1000 {
			if err := os.WriteFile(filepath.Join(dir, fmt.Sprint(i%10)), nil, 0o644); err != nil {
				t.Fatal(err)
			}
		}
		wait(t, ch)
		select {
		case <-ch:
		case <-time.After(500 * time.Millisecond):
			return
		}
	}
	t.Error("one burst gave a second signal, five times in a row")
}

func TestFiles_ContinuousChanges(t *testing.T) {
	dir := t.TempDir()
	ch := files(t, dir, 50*time.Millisecond)
	end := testdeadline.After(10 * time.Second)
	for {
		if err := os.WriteFile(filepath.Join(dir, "a"), nil, 0o644); err != nil {
			t.Fatal(err)
		}
		select {
		case <-ch:
			return
		case <-end:
			t.Fatal("no signal within 10 s of edits")
		default:
		}
	}
}

func TestFiles_LostEvents(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "dcm.toml.d")
	tr, err := newTracker([]string{dir}, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	defer tr.watcher.Close()
	if err := os.Mkdir(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	<-tr.watcher.Events // lost

	ctx, cancel := context.WithCancel(t.Context())
	out, done := make(chan struct{}, 1), make(chan struct{})
	go func() { tr.run(ctx, debounce{quiet: time.Millisecond}, out); close(done) }()
	tr.watcher.Errors <- fsnotify.ErrEventOverflow
	wait(t, out)
	if err := os.WriteFile(filepath.Join(dir, "a"), nil, 0o644); err != nil {
		t.Fatal(err)
	}
	wait(t, out)
	cancel()
	wait(t, done)
}

func TestFiles_ContextEnds(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	ch, err := Files(ctx, []string{t.TempDir()}, time.Hour, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	cancel()
	if wait(t, ch) {
		t.Fatal("a signal instead of the channel's end")
	}
	for late := testdeadline.After(10 * time.Second); ; runtime.Gosched() {
		var stacks bytes.Buffer
		if err := pprof.Lookup("goroutine").WriteTo(&stacks, 1); err != nil {
			t.Fatal(err)
		}
		if !bytes.Contains(stacks.Bytes(), []byte("fsnotify")) {
			return
		}
		select {
		case <-late:
			t.Fatalf("goroutines left after the channel was closed:\n%s", &stacks)
		default:
		}
	}
}

func TestDebounce_Bound(t *testing.T) {
	d, start := debounce{quiet: time.Second, bound: 3 * time.Second}, time.Now()
	var got []time.Duration
	for _, after := range []time.Duration{0, 1, 2, 3} {
		got = append(got, d.change(start.Add(after*time.Second)))
	}
	if diff := cmp.Diff([]time.Duration{time.Second, time.Second, time.Second, 0}, got); diff != "" {
		t.Errorf("delays (-want +got):\n%s", diff)
	}
}

func TestDebounce(t *testing.T) {
	d, start := debounce{quiet: time.Second}, time.Now()
	var got []time.Duration
	for _, after := range []time.Duration{0, 1, 5, 9, 10, 15} {
		got = append(got, d.change(start.Add(after*time.Second)))
	}
	d.done()
	got = append(got, d.change(start.Add(20*time.Second)))
	want := []time.Duration{time.Second, time.Second, time.Second, time.Second, 0, 0, time.Second}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("delays (-want +got):\n%s", diff)
	}
}
