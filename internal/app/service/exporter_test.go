package service

import (
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"dcm/internal/engine/host"
	"dcm/internal/frontends/metrics"
	"dcm/internal/frontends/status"
	"dcm/internal/linux/systemd"
)

// Each watchdog notification also renews a metric. Its age shows a daemon that hangs, or
// that was killed and not started again.
func TestASignOfLifeIsInTheMetrics(t *testing.T) {
	root := t.TempDir()
	collector := filepath.Join(root, "collector")
	for _, dir := range []string{collector, filepath.Join(root, "run/dcm")} {
		if err := os.MkdirAll(dir, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	h := &host.Host{Root: root}
	e := &exporter{host: h, log: slog.New(slog.DiscardHandler), dir: collector}
	published := func() string {
		text, err := os.ReadFile(filepath.Join(collector, metrics.File))
		if err != nil {
			t.Fatal(err)
		}
		return string(text)
	}
	const alive = "\ndcm_daemon_alive_timestamp_seconds "
	inSync := status.Account{Health: status.Health{InSync: true}}
	e.write(inSync)
	if strings.Contains(published(), alive) {
		t.Error("a sign of life without a watchdog: it would never be renewed")
	}
	if err := (watchdogHook{systemd.NewNotifier(func(string) string { return "" }), e, func() {}}).Watchdog(); err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(published(), alive) || !strings.Contains(published(), "\ndcm_in_sync 1\n") {
		t.Errorf("after a sign of life the metrics are:\n%s", published())
	}
	e.alive = time.Unix(1, 0)
	e.write(inSync)
	if strings.Contains(published(), alive+"1\n") {
		t.Error("an old sign of life is exported as a new one")
	}
}

// A reload of the daemon reads the memory in use, as each watchdog tick does.
func TestReloadHook(t *testing.T) {
	read := 0
	if err := (reloadHook{systemd.NewNotifier(func(string) string { return "" }), func() { read++ }}).Reloading(); err != nil || read != 1 {
		t.Errorf("got %d readings, %v; want 1", read, err)
	}
}
