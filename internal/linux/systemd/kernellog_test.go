package systemd

import (
	"bytes"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestKernelLog(t *testing.T) {
	device := filepath.Join(t.TempDir(), "kmsg")
	write(t, device, "")
	var fallback bytes.Buffer
	log := KernelLog(device, "dcm-generator", &fallback)
	log(slog.LevelError, "/etc/dcm/dcm.toml:7: unknown key\n\n/etc/dcm/dcm.toml:9: <0>no such profile\n")
	log(slog.LevelWarn, strings.Repeat("x", 5000))
	log(slog.LevelInfo, "2 clients")

	id := fmt.Sprintf("dcm-generator[%d]: ", os.Getpid())
	want := "<3>" + id + "/etc/dcm/dcm.toml:7: unknown key\n" +
		"<3>" + id + "/etc/dcm/dcm.toml:9: <0>no such profile\n" +
		"<4>" + id + strings.Repeat("x", 897) + "…\n" +
		"<6>" + id + "2 clients\n"
	got, err := os.ReadFile(device)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want, string(got)); diff != "" {
		t.Errorf("records (-want +got):\n%s", diff)
	}
	if fallback.Len() > 0 {
		t.Errorf("the fallback got %q too", &fallback)
	}
}

func TestKernelLog_Fallback(t *testing.T) {
	dir := t.TempDir()
	fifo := filepath.Join(dir, "fifo")
	if err := syscall.Mkfifo(fifo, 0o600); err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct{ name, path string }{
		{"no device", filepath.Join(dir, "none")},
		{"a FIFO without a reader", fifo},
	} {
		t.Run(tt.name, func(t *testing.T) {
			var fallback bytes.Buffer
			KernelLog(tt.path, "dcm-generator", &fallback)(slog.LevelError, "broken")
			want := fmt.Sprintf("<3>dcm-generator[%d]: broken\n", os.Getpid())
			if diff := cmp.Diff(want, fallback.String()); diff != "" {
				t.Errorf("fallback (-want +got):\n%s", diff)
			}
		})
	}
}
