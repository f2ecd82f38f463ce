package plan

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"dcm/internal/engine/host"
	"dcm/internal/engine/runstate"
	"dcm/internal/frontends/status"
	"dcm/internal/testkit/sim"
	"dcm/internal/testkit/sim/simtest"
)

// While a run reloads the driver, no GPU can be read. That is no fault of the host.
func TestCompare_WhileTheDriverReloads(t *testing.T) {
	node := simtest.Start(t, "mi300x-8", sim.Options{})
	h := &host.Host{Root: t.TempDir()}
	for name, target := range map[string]string{"sys": node.Sys, "dev": node.Dev} {
		if err := os.Symlink(target, filepath.Join(h.Root, name)); err != nil {
			t.Fatal(err)
		}
	}
	file := filepath.Join(h.Root, "etc/dcm/dcm.toml")
	if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(file, []byte("version = 1\n[profiles.cpx]\ncompute = \"CPX\"\nmemory = \"NPS1\"\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	running := func(phase runstate.Phase) func(context.Context) (status.Account, error) {
		return func(context.Context) (status.Account, error) {
			return status.Account{Daemon: status.Daemon{Phase: phase}}, nil
		}
	}
	if _, d, _, err := Compare(t.Context(), h, running(runstate.Applying), "cpx"); err != nil || len(d.Steps) == 0 {
		t.Fatalf("with the driver: %v, %v", d.Steps, err)
	}
	if err := node.Unload(t.Context()); err != nil {
		t.Fatal(err)
	}
	if _, _, _, err := Compare(t.Context(), h, running(runstate.Applying), "cpx"); !errors.Is(err, ErrChanging) {
		t.Errorf("during a run: %v, want %v", err, ErrChanging)
	}
	if _, _, _, err := Compare(t.Context(), h, running(runstate.Idle), "cpx"); err == nil || !strings.Contains(err.Error(), "has no driver") {
		t.Errorf("without a run: %v", err)
	}
	if _, _, _, err := Compare(t.Context(), h, running(runstate.Applying), "nosuch"); err == nil || errors.Is(err, ErrChanging) {
		t.Errorf("without such a profile: %v", err)
	}
}
