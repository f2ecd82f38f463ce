package selftestcmd

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"dcm/internal/engine/host"
)

// journalctl stands in for journalctl: it prints the kernel's lines between two times, which begin with
// seconds since the epoch.
const journalctl = `#!/bin/sh
from=0 until=9999999999 kernel=
for arg; do
	case $arg in
	--since=@*) from=${arg#*@} ;;
	--until=@*) until=${arg#*@} ;;
	--dmesg) kernel=yes ;;
	esac
done
[ -n "$kernel" ] || exit 1
while read -r at line; do
	[ "$at" -lt "$from" ] || [ "$at" -gt "$until" ] || echo "$line"
done <<'END'
1000 amdgpu 0000:05:00.0: amdgpu: loaded at boot
2001 amdgpu: [drm] amdgpu kernel modesetting enabled.
2002 amdgpu 0000:05:00.0: amdgpu: process secret-project-x pid 4711 thread secret-project-x:cs0 pid 4712
2002 usb 1-1: new device
3001 amdgpu 0000:05:00.0: amdgpu: psp: failed to load the firmware
END
`

// TestKernelLines: the archive has the kernel's lines of each reload, and without a reload those since the
// boot. Lines about other devices, and names of processes, are left out.
func TestKernelLines(t *testing.T) {
	bin := t.TempDir()
	if err := os.WriteFile(filepath.Join(bin, "journalctl"), []byte(journalctl), 0o755); err != nil {
		t.Fatal(err)
	}
	t.Setenv("PATH", bin+string(filepath.ListSeparator)+os.Getenv("PATH"))
	second := func(n int64) time.Time { return time.Unix(n, 0) }
	const first, third = "amdgpu 0000:05:00.0: amdgpu: loaded at boot\n", "amdgpu 0000:05:00.0: amdgpu: psp: failed to load the firmware\n"
	const lines = "amdgpu: [drm] amdgpu kernel modesetting enabled.\namdgpu 0000:05:00.0: amdgpu: process PROCESS pid 4711 thread PROCESS pid 4712\n"
	for _, tt := range []struct {
		name    string
		reloads []reload
		want    string
	}{
		{"no reload", nil, first + lines + third},
		{"two reloads", []reload{{"SPX/NPS1", second(2000), second(2002)}, {"DPX/NPS2", second(3000), second(3001)}},
			"reload for SPX/NPS1, 2s:\n" + lines + "\nreload for DPX/NPS2, 1s:\n" + third + "\n"},
		{"a reload without lines", []reload{{"CPX/NPS4", second(5000), second(5002)}}, "reload for CPX/NPS4, 2s:\n\n"},
	} {
		got, err := kernelLines(t.Context(), &host.Host{Root: "/"}, tt.reloads)
		if diff := cmp.Diff(tt.want, string(got)); diff != "" || err != nil {
			t.Errorf("%s: %v (-want +got):\n%s", tt.name, err, diff)
		}
	}

	// They are in the archive.
	e := newTest(t.Context(), &host.Host{Root: t.TempDir()}, nil, time.Now(), func(event) {})
	e.host, e.reloads = &host.Host{Root: "/"}, []reload{{"SPX/NPS1", second(2000), second(2002)}}
	archive, err := packed(t.Context(), e)
	if err != nil {
		t.Fatal(err)
	}
	if text := unpacked(t, archive); !strings.Contains(text, "/kernel.txt\nreload for SPX/NPS1, 2s:\n"+lines) {
		t.Errorf("the archive does not have the kernel's lines:\n%s", text)
	}
}
