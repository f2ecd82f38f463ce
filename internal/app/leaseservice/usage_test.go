package leaseservice

import (
	"log/slog"
	"os"
	"testing"

	"dcm/internal/engine/config"
	"dcm/internal/engine/host"
	"dcm/internal/frontends/status"
	"dcm/internal/linux/filelock"
)

func TestUsage_DuringARun(t *testing.T) {
	h := &host.Host{Root: t.TempDir()}
	if err := os.MkdirAll(h.Runtime(), 0o755); err != nil {
		t.Fatal(err)
	}
	release, err := filelock.TryLock(h.Locks().Run())
	if err != nil {
		t.Fatal(err)
	}
	p := NewPartitions(h, &config.Config{}, slog.New(slog.DiscardHandler))
	if u := p.usage(t.Context()); u.Why(status.PartUses) != "the GPUs are being partitioned" || len(u.Parts) > 0 {
		t.Errorf("in a run: %+v", u)
	}
	release()
	if u := p.usage(t.Context()); u.Why(status.PartUses) == "the GPUs are being partitioned" || u.Why(status.PartHolders) == "" {
		t.Errorf("after the change: %+v", u)
	}
}
