package service

import (
	"context"
	"errors"
	"log/slog"
	"os"
	"runtime"
	"syscall"
	"testing"

	"dcm/internal/engine/host"
)

func TestTheListOfDevicesIsLookedUpAnewWhenADriverHasCome(t *testing.T) {
	h := &host.Host{Root: t.TempDir()}
	kinds := func(text string) {
		t.Helper()
		if err := os.MkdirAll(h.Path("proc"), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(h.Path("proc/devices"), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	kinds("226 drm\n")
	o := newDeviceACL(h, slog.New(slog.DiscardHandler))
	asked := 0
	var fails error
	o.refit = func(context.Context) error { asked++; return fails }
	for _, s := range []struct {
		kinds string
		fails error
		want  int
	}{
		{"226 drm\n", nil, 0},
		{"226 drm\n509 nvidia-caps\n", errors.New("not running"), 1},
		{"226 drm\n509 nvidia-caps\n", nil, 2},
		{"226 drm\n509 nvidia-caps\n", nil, 2},
		{"226 drm\n", nil, 3},
	} {
		kinds(s.kinds)
		fails = s.fails
		if o.refreshIfChanged(t.Context()); asked != s.want {
			t.Errorf("with %q it is asked for %d times, want %d", s.kinds, asked, s.want)
		}
	}
	if err := os.Remove(h.Path("proc/devices")); err != nil {
		t.Fatal(err)
	}
	if o.refreshIfChanged(t.Context()); asked != 3 {
		t.Error("an unchanged list causes a refresh")
	}
}

// first ends the goroutine that says something.
type first struct{ slog.Handler }

func (first) Enabled(context.Context, slog.Level) bool { return true }

func (first) Handle(context.Context, slog.Record) error {
	runtime.Goexit()
	return nil
}

// The daemon reads /proc/devices before anything else. If a driver is loaded between systemd's read
// at the daemon's start and a later read by the daemon, the daemon would take it for one that
// systemd knows.
func TestDaemon_ReadsDeviceKindsFirst(t *testing.T) {
	h := &host.Host{Root: t.TempDir()}
	kinds := h.Path("proc/devices")
	if err := errors.Join(os.Mkdir(h.Path("proc"), 0o755), syscall.Mkfifo(kinds, 0o600), os.WriteFile(h.Path("run"), nil, 0o600)); err != nil {
		t.Fatal(err)
	}
	looked := make(chan struct{})
	go func() {
		file, err := os.OpenFile(kinds, os.O_WRONLY, 0) // waits for a reader
		close(looked)
		if err == nil {
			file.Close()
		}
	}()
	over := make(chan struct{})
	go func() {
		defer close(over)
		_ = Daemon(t.Context(), h, slog.New(first{}))
	}()
	<-over
	select {
	case <-looked:
	default:
		t.Error("the daemon read or wrote another file before /proc/devices")
		if file, err := os.OpenFile(kinds, os.O_RDONLY|syscall.O_NONBLOCK, 0); err == nil {
			defer file.Close()
		}
		<-looked
	}
}
