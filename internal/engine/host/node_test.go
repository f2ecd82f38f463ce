package host

import (
	"os"
	"path/filepath"
	"testing"
)

func TestAnotherProgramThatSetsMIGIsOneWhileItIsEnabled(t *testing.T) {
	h := &Host{Root: t.TempDir()}
	link := func(to, path string) {
		t.Helper()
		if err := os.MkdirAll(filepath.Dir(h.Path(path)), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.Symlink(to, h.Path(path)); err != nil {
			t.Fatal(err)
		}
	}
	if got := conflictingUnit(h); got != "" {
		t.Errorf("where it is not installed: %q", got)
	}
	link("/lib/systemd/system/"+migManager, "etc/systemd/system/multi-user.target.wants/"+migManager)
	if got := conflictingUnit(h); got != migManager {
		t.Errorf("enabled: %q", got)
	}
	link("/dev/null", "etc/systemd/system/"+migManager)
	if got := conflictingUnit(h); got != "" {
		t.Errorf("masked: %q", got)
	}
}
