package service

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"dcm/internal/engine/config"
	"dcm/internal/engine/host"
	"dcm/internal/engine/reboot"
	"dcm/internal/gpu/partition"
	"dcm/internal/linux/systemd"
)

// bootOf sets the boot id of the tree's kernel.
func bootOf(t *testing.T, h *host.Host, id string) {
	t.Helper()
	for file, text := range map[string]string{"proc/sys/kernel/random/boot_id": id + "\n", "var/lib/dcm/.keep": ""} {
		if err := os.MkdirAll(filepath.Dir(h.Path(file)), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(h.Path(file), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
}

func TestTheRebootIsWrittenDownBeforeItIsAskedFor(t *testing.T) {
	h := &host.Host{Root: t.TempDir()}
	asked := 0
	r := rebooter{h, func(context.Context) error {
		asked++
		last, err := reboot.In(rebootRecord(h)).Read()
		if err != nil || last == nil || last.Boot != "one" || !strings.Contains(last.Wish, "NPS4") {
			t.Errorf("written down is %+v, %v", last, err)
		}
		return nil
	}, lasting}
	p := partition.Profile{Name: "p", Compute: partition.CPX, Memory: partition.NPS4}
	if err := r.Reboot(t.Context(), p, "in use"); err == nil || asked > 0 {
		t.Errorf("without a boot id: asked %d times, %v", asked, err)
	}
	bootOf(t, h, "one")
	if err := r.Reboot(t.Context(), p, "in use"); err != nil || asked != 1 {
		t.Fatalf("asked %d times, %v", asked, err)
	}
	for _, boot := range []string{"one", "two", "three"} {
		bootOf(t, h, boot)
		if err := r.Reboot(t.Context(), p, "in use"); err == nil || asked != 1 {
			t.Errorf("in boot %s: asked %d times, %v", boot, asked, err)
		}
	}
}

func TestARebootThatIsRefusedMayBeAskedForAgain(t *testing.T) {
	h := &host.Host{Root: t.TempDir()}
	bootOf(t, h, "one")
	p := partition.Profile{Name: "p", Compute: partition.CPX, Memory: partition.NPS4}
	for _, tt := range []struct {
		answer error
		kept   bool
	}{
		{fmt.Errorf("%w: inhibited", systemd.ErrNoReboot), false},
		{errors.New("the connection broke"), true}, // the result is unknown
	} {
		r := rebooter{h, func(context.Context) error { return tt.answer }, lasting}
		if err := r.Reboot(t.Context(), p, ""); !errors.Is(err, tt.answer) {
			t.Errorf("got %v, want %v", err, tt.answer)
		}
		if last, err := reboot.In(rebootRecord(h)).Read(); err != nil || (last != nil) != tt.kept {
			t.Errorf("after %v the record is %+v, %v", tt.answer, last, err)
		}
	}
	if err := reboots(h)(t.Context()); !errors.Is(err, systemd.ErrNoReboot) {
		t.Errorf("another tree reboots this host: %v", err)
	}
}

func TestTheDriverIsReloadedAtBootOnlyAfterARebootForIt(t *testing.T) {
	h := &host.Host{Root: t.TempDir()}
	p := partition.Profile{Name: "p", Compute: partition.CPX, Memory: partition.NPS4}
	other := p
	other.Memory = partition.NPS2
	for _, tt := range []struct {
		name       string
		boot, wish string
		first      bool
		cfg        config.Config
		want       bool
	}{
		{"after the reboot", "two", wish(p), true, config.Config{Reboot: config.Once}, true},
		{"later in the boot", "two", wish(p), false, config.Config{Reboot: config.Once}, false},
		{"may be reloaded anyway", "two", wish(p), true, config.Config{Reboot: config.Once, ReloadDriver: true}, false},
		{"for another profile", "two", wish(other), true, config.Config{Reboot: config.Once}, false},
		{"no longer allowed", "two", wish(p), true, config.Config{Reboot: config.Never}, false},
	} {
		bootOf(t, h, tt.boot)
		if err := reboot.In(rebootRecord(h)).Write(reboot.Record{Wish: tt.wish, Boot: "one"}); err != nil {
			t.Fatal(err)
		}
		tt.cfg.Profile = p
		if got, err := atBoot(h, tt.first, &tt.cfg); got != tt.want || err != nil {
			t.Errorf("%s: %v, %v; want %v", tt.name, got, err, tt.want)
		}
	}
}

func lasting() error { return nil }

func TestAHostThatForgetsIsNotRebooted(t *testing.T) {
	h := &host.Host{Root: t.TempDir()}
	bootOf(t, h, "one")
	forgets := errors.New("tmpfs")
	r := rebooter{h, func(context.Context) error { t.Error("asked for"); return nil }, func() error { return forgets }}
	if err := r.Reboot(t.Context(), partition.Profile{Name: "p"}, ""); !errors.Is(err, forgets) {
		t.Errorf("got %v, want %v", err, forgets)
	}
	if last, err := reboot.In(rebootRecord(h)).Read(); last != nil || err != nil {
		t.Errorf("written down is %+v, %v", last, err)
	}
}
