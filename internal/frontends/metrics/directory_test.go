package metrics

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// outlet returns a Directory whose collector's directory the test can replace.
func outlet(t *testing.T) Directory {
	t.Helper()
	top, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	o := Directory{Data: filepath.Join(top, "own"), Collector: filepath.Join(top, "theirs", "node-exporter")}
	if err := os.MkdirAll(o.Collector, 0o755); err != nil {
		t.Fatal(err)
	}
	return o
}

// content returns the files in a directory, by name, with links followed.
func content(t *testing.T, dir string) map[string]string {
	t.Helper()
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	got := make(map[string]string)
	for _, e := range entries {
		got[e.Name()], _ = os.Readlink(filepath.Join(dir, e.Name()))
	}
	return got
}

func TestWrite_LinksInCollectorDirectory(t *testing.T) {
	o := outlet(t)
	// A version of dcm that wrote into the collector's directory left these files.
	if err := os.WriteFile(filepath.Join(o.Collector, File), []byte("dcm_in_sync 1\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		if err := o.Write(facts(), at(20000), nil); err != nil {
			t.Fatal(err)
		}
		want := map[string]string{File: filepath.Join(o.Data, File)}
		if diff := cmp.Diff(want, content(t, o.Collector)); diff != "" {
			t.Errorf("the collector's directory (-want +got):\n%s", diff)
		}
		if diff := cmp.Diff(map[string]string{File: ""}, content(t, o.Data)); diff != "" {
			t.Errorf("dcm's directory (-want +got):\n%s", diff)
		}
	}
	text, err := os.ReadFile(filepath.Join(o.Collector, File))
	if err != nil || string(text) != string(Render(facts(), at(20000), nil)) {
		t.Errorf("%v\n%s", err, text)
	}
	info, err := os.Stat(filepath.Join(o.Collector, File))
	if err != nil || info.Mode() != 0o644 {
		t.Errorf("%v, %v", info.Mode(), err)
	}
}

// The owner of a parent of the collector's directory can replace that directory by a link.
func TestWrite_DoesNotFollowLinks(t *testing.T) {
	for _, swapped := range []string{"node-exporter", "its parent"} {
		t.Run(swapped, func(t *testing.T) {
			o := outlet(t)
			if err := o.Write(facts(), at(20000), nil); err != nil {
				t.Fatal(err)
			}
			old := o.Collector
			if swapped != "node-exporter" {
				old = filepath.Dir(o.Collector)
			}
			elsewhere := filepath.Join(t.TempDir(), "node-exporter")
			for _, err := range []error{
				os.Mkdir(elsewhere, 0o755),
				os.WriteFile(filepath.Join(elsewhere, "dcm.prom123"), []byte("a device"), 0o600),
				os.WriteFile(filepath.Join(elsewhere, File), []byte("a device"), 0o600),
				os.Rename(old, old+".away"),
			} {
				if err != nil {
					t.Fatal(err)
				}
			}
			target := elsewhere
			if old != o.Collector {
				target = filepath.Dir(elsewhere)
			}
			if err := os.Symlink(target, old); err != nil {
				t.Fatal(err)
			}
			for what, err := range map[string]error{"write": o.Write(facts(), at(20000), nil), "sweep": o.Sweep(), "remove": o.Remove()} {
				if err == nil || !strings.Contains(err.Error(), "symbolic link") {
					t.Errorf("%s: %v", what, err)
				}
			}
			if diff := cmp.Diff(map[string]string{File: "", "dcm.prom123": ""}, content(t, elsewhere)); diff != "" {
				t.Errorf("target of the link (-want +got):\n%s", diff)
			}
			if info, err := os.Stat(filepath.Join(elsewhere, File)); err != nil || info.Mode() != 0o600 {
				t.Errorf("%v, %v", info.Mode(), err)
			}
		})
	}
}

func TestSweep_RemovesLeftovers(t *testing.T) {
	o := outlet(t)
	if err := os.Mkdir(o.Data, 0o755); err != nil {
		t.Fatal(err)
	}
	for _, file := range []string{o.Collector + "/.dcm.link", o.Data + "/." + File + ".dcm-4711", o.Collector + "/other.prom"} {
		if err := os.WriteFile(file, nil, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for range 2 { // the second call finds nothing to remove
		if err := o.Sweep(); err != nil {
			t.Fatal(err)
		}
	}
	if diff := cmp.Diff(map[string]string{"other.prom": ""}, content(t, o.Collector)); diff != "" {
		t.Errorf("the collector's directory (-want +got):\n%s", diff)
	}
	if got := content(t, o.Data); len(got) != 0 {
		t.Errorf("dcm's directory: got %v", got)
	}
}

// The owner of the collector's directory may fill it with files. The memory that dcm allocates must not
// depend on their number.
func TestSweep_FullDirectory(t *testing.T) {
	o := outlet(t)
	allocated := func() uint64 {
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		if err := errors.Join(o.Sweep(), o.Write(facts(), at(20000), nil)); err != nil {
			t.Fatal(err)
		}
		runtime.ReadMemStats(&after)
		return after.TotalAlloc - before.TotalAlloc
	}
	empty := allocated()
	const names = 5000
	for i := range names {
		if err := os.WriteFile(filepath.Join(o.Collector, fmt.Sprintf("%0200d", i)), nil, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if full := allocated(); full > empty+names*50 {
		t.Errorf("allocated %d bytes with %d files in the directory, and %d without", full, names, empty)
	}
}

func TestRemove(t *testing.T) {
	o := outlet(t)
	if err := o.Write(facts(), at(20000), nil); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		if err := o.Remove(); err != nil {
			t.Fatal(err)
		}
		if left := content(t, o.Collector); len(left) != 0 {
			t.Errorf("left: %v", left)
		}
		if left := content(t, o.Data); len(left) != 0 {
			t.Errorf("left: %v", left)
		}
	}
}
