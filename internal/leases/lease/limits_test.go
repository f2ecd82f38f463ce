package lease

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"dcm/internal/sanitize"
)

func TestReadBounds_TightestOfAncestors(t *testing.T) {
	root := t.TempDir()
	for file, text := range map[string]string{
		"memory.max":            "1", // of the root, whose limits are ignored
		"user.slice/memory.max": "max", "user.slice/pids.max": "500",
		"user.slice/user-1000.slice/memory.max": "8589934592", "user.slice/user-1000.slice/memory.high": "max",
		"user.slice/user-1000.slice/cpu.max": "200000 100000", "user.slice/user-1000.slice/cpuset.cpus": "0-7",
		"user.slice/user-1000.slice/cpu.weight": "50", "user.slice/user-1000.slice/io.max": "",
		"user.slice/user-1000.slice/session-1.scope/memory.max": "17179869184", "user.slice/user-1000.slice/session-1.scope/cpu.max": "max 100000",
		"user.slice/user-1000.slice/session-1.scope/pids.max": "700", "user.slice/user-1000.slice/session-1.scope/cpuset.cpus": "0-3",
		"user.slice/user-1000.slice/dmem.max":                   "drm/0000:05:00.0/vram 1024\ndrm/0000:26:00.0/vram max",
		"user.slice/user-1000.slice/session-1.scope/dmem.max":   "drm/0000:05:00.0/vram max\ndrm/0000:26:00.0/vram max",
		"user.slice/user-1000.slice/session-1.scope/io.max":     "8:0 rbps=1024 wbps=max",
		"user.slice/user-1000.slice/session-1.scope/cpu.weight": "100",
		"user.slice/user-1000.slice/memory.zswap.max":           "0",
		"user.slice/memory.zswap.max":                           "max",
	} {
		path := filepath.Join(root, file)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text+"\n"), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	got, err := ReadBounds(root, "/user.slice/user-1000.slice/session-1.scope")
	want := CgroupLimits{
		Memory: 8 << 30, MemoryHigh: unbounded, Swap: unbounded, Tasks: 500, CPU: 2_000_000, CPUs: "0-3",
		Others: []string{"cpu.weight of user-1000.slice", "io.max of session-1.scope", "memory.zswap.max of user-1000.slice", "dmem.max of user-1000.slice"},
	}
	if diff := cmp.Diff(want, got, cmpopts.SortSlices(func(a, b string) bool { return a < b })); err != nil || diff != "" {
		t.Errorf("%v (-want +got):\n%s", err, diff)
	}
	if got, err := ReadBounds(root, "/"); err != nil || got.Memory != unbounded {
		t.Errorf("limits of the root: got %+v, %v", got, err)
	}
}

// A cgroup may name processors that its ancestors do not have. The kernel grants the
// intersection.
func TestReadBounds_EffectiveProcessors(t *testing.T) {
	for name, tt := range map[string]struct {
		files map[string]string
		want  string
	}{
		"more than the ancestors have": {map[string]string{
			"a.slice/cpuset.cpus": "0-1", "a.slice/cpuset.cpus.effective": "0-1", "a.slice/b.scope/cpuset.cpus": "0-7", "a.slice/b.scope/cpuset.cpus.effective": "0-1"}, "0-1"},
		"one does not exist":    {map[string]string{"a.slice/b.scope/cpuset.cpus": "0-7", "a.slice/b.scope/cpuset.cpus.effective": "0-5,7"}, "0-5,7"},
		"set on the slice only": {map[string]string{"a.slice/cpuset.cpus": "2", "a.slice/cpuset.cpus.effective": "2"}, "2"},
		"not set anywhere":      {map[string]string{"a.slice/cpuset.cpus": "", "a.slice/cpuset.cpus.effective": "0-7"}, ""},
		"no effective set":      {map[string]string{"a.slice/cpuset.cpus": "3"}, "3"},
	} {
		t.Run(name, func(t *testing.T) {
			root := t.TempDir()
			for file, text := range tt.files {
				path := filepath.Join(root, file)
				if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
					t.Fatal(err)
				}
				if err := os.WriteFile(path, []byte(text+"\n"), 0o644); err != nil {
					t.Fatal(err)
				}
			}
			if got, err := ReadBounds(root, "/a.slice/b.scope"); err != nil || got.CPUs != tt.want {
				t.Errorf("processors %q, %v; want %q", got.CPUs, err, tt.want)
			}
		})
	}
}

// The owner of a cgroup can give its children any name.
func TestReadBounds_EscapesNames(t *testing.T) {
	root, name := t.TempDir(), "a\x1b[2J\xff"
	dir := filepath.Join(root, "user.slice", name)
	if err := os.MkdirAll(filepath.Join(dir, "memory.max"), 0o755); err != nil { // a directory cannot be read
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "cpu.weight"), []byte("50\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	if _, err := ReadBounds(root, "/user.slice/"+name); err == nil || sanitize.Text(err.Error()) != err.Error() {
		t.Errorf("error: got %q, want the name escaped", err)
	}
	if err := os.Remove(filepath.Join(dir, "memory.max")); err != nil {
		t.Fatal(err)
	}
	if b, err := ReadBounds(root, "/user.slice/"+name); err != nil || len(b.Others) != 1 || sanitize.Text(b.Others[0]) != b.Others[0] {
		t.Errorf("other limits: got %q, %v", b.Others, err)
	}
}
