package main

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"dcm/internal/app/service"
	"dcm/internal/engine/host"
	"dcm/internal/exitcode"
)

func TestCommands_OfUnits(t *testing.T) {
	units, err := filepath.Glob("../../systemd/*.service")
	if err != nil {
		t.Fatal(err)
	}
	line := regexp.MustCompile(`(?m)^Exec[A-Za-z]+=/usr/libexec/dcm/dcm-service (.*)$`)
	found := 0
	for _, unit := range units {
		text, err := os.ReadFile(unit)
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range line.FindAllStringSubmatch(string(text), -1) {
			found++
			if work(m[1]) == nil {
				t.Errorf("%s runs %q, which there is not", unit, m[0])
			}
			if name, _, _ := strings.Cut(m[1], " "); service.Works()[name].Unit != filepath.Base(unit) {
				t.Errorf("%s runs %q, which is the work of %q", unit, m[0], service.Works()[name].Unit)
			}
		}
	}
	if found != 10 {
		t.Errorf("the units run it in %d lines, want 10", found)
	}
}

func TestExtend_WritesDropIn(t *testing.T) {
	h := &host.Host{Root: t.TempDir()}
	unit := h.Path("run/systemd/transient/dcm-lease-0-4f1c09aa.scope")
	if err := os.MkdirAll(filepath.Dir(unit), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(unit, nil, 0o644); err != nil {
		t.Fatal(err)
	}
	var stderr strings.Builder
	if code := run(t.Context(), h, &stderr, []string{"extend", filepath.Base(unit), "60000000"}); code != exitcode.OK {
		t.Errorf("exit status %d: %s", code, &stderr)
	}
	if text, err := os.ReadFile(unit + ".d/50-RuntimeMaxSec.conf"); err != nil || !strings.Contains(string(text), "=60000000us") {
		t.Errorf("drop-in: %q, %v", text, err)
	}
}

func TestCommands_UnknownIsUsageError(t *testing.T) {
	for _, args := range [][]string{nil, {"status"}, {"daemon", "now"}, {"oneshot --reload"}} {
		var stderr strings.Builder
		if code := run(t.Context(), &host.Host{Root: t.TempDir()}, &stderr, args); code != exitcode.Usage {
			t.Errorf("%q: exit status %d, want %d", args, code, exitcode.Usage)
		}
		if got := stderr.String(); !strings.HasPrefix(got, "dcm: usage: dcm-service ") || strings.Count(got, "\n") != 1 {
			t.Errorf("%q: got %q, want one usage line", args, got)
		}
	}
}
