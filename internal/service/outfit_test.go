package service

import (
	"context"
	"errors"
	"log/slog"
	"os"
	"testing"

	"dcm/internal/host"
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
	o := newOutfit(h, slog.New(slog.DiscardHandler))
	asked := 0
	var fails error
	o.refit = func(context.Context) error { asked++; return fails }
	for _, s := range []struct {
		kinds string
		fails error
		want  int
	}{
		{"226 drm\n", nil, 0},
		{"226 drm\n509 nvidia-caps\n", errors.New("nobody there"), 1},
		{"226 drm\n509 nvidia-caps\n", nil, 2},
		{"226 drm\n509 nvidia-caps\n", nil, 2},
		{"226 drm\n", nil, 3},
	} {
		kinds(s.kinds)
		fails = s.fails
		if o.renew(t.Context()); asked != s.want {
			t.Errorf("with %q it is asked for %d times, want %d", s.kinds, asked, s.want)
		}
	}
	if err := os.Remove(h.Path("proc/devices")); err != nil {
		t.Fatal(err)
	}
	if o.renew(t.Context()); asked != 3 {
		t.Error("where nothing is told it is asked for")
	}
}
