package amdsmi

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestCandidates(t *testing.T) {
	root := t.TempDir()
	for _, file := range []string{
		"opt/rocm/lib/libamd_smi.so",
		"opt/rocm-6.10.1/lib/libamd_smi.so.24",
		"opt/rocm-6.9.2/lib/libamd_smi.so",
		"opt/rocm-6.9.2/lib/libamd_smi.so.24",
		"opt/rocm-10.1.0/lib/libamd_smi.so.27",
		"opt/rocm-nightly/lib/libamd_smi.so.27",
		"opt/rocm-7.0/lib/other.so",
	} {
		path := filepath.Join(root, file)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, nil, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	for _, c := range []struct {
		name, configured string
		want             []string
	}{
		{"a configured path is the only one", "/srv/libamd_smi.so", []string{"/srv/libamd_smi.so"}},
		{"the loader first, then the highest ROCm", "", []string{
			"libamd_smi.so.27", "libamd_smi.so.26", "libamd_smi.so.25", "libamd_smi.so.24", "libamd_smi.so.0", "libamd_smi.so",
			"/opt/rocm/lib/libamd_smi.so",
			"/opt/rocm-10.1.0/lib/libamd_smi.so.27",
			"/opt/rocm-6.10.1/lib/libamd_smi.so.24",
			"/opt/rocm-6.9.2/lib/libamd_smi.so.24",
			"/opt/rocm-6.9.2/lib/libamd_smi.so",
			"/opt/rocm-nightly/lib/libamd_smi.so.27",
		}},
	} {
		var got []string
		for _, path := range Candidates(c.configured, root) {
			got = append(got, strings.TrimPrefix(path, root))
		}
		if diff := cmp.Diff(c.want, got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", c.name, diff)
		}
	}
}

func TestMappedFile(t *testing.T) {
	maps := "7f00-7f10 r--p 00000000 fe:00 11 /usr/lib/libamd_smi.so.27.1.0\n" +
		"8000-8010 rw-p 00000000 00:00 0 \n"
	for _, c := range []struct {
		addr uint64
		want string
	}{{0x7f00, "/usr/lib/libamd_smi.so.27.1.0"}, {0x7f10, ""}, {0x8001, ""}} {
		if got := mappedFile(maps, c.addr); got != c.want {
			t.Errorf("mappedFile(%#x) = %q, want %q", c.addr, got, c.want)
		}
	}
}
