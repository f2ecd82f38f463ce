package sandbox

import (
	"bytes"
	"encoding/binary"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// written creates a cache like that of ldconfig.
func written(entries ...[2]string) []byte {
	var list, text []byte
	start := uint32(48 + 24*len(entries))
	put := func(s string) uint32 {
		at := start + uint32(len(text))
		text = append(append(text, s...), 0)
		return at
	}
	for _, e := range entries {
		list = binary.NativeEndian.AppendUint32(list, machine())
		list = binary.NativeEndian.AppendUint32(list, put(e[0]))
		list = binary.NativeEndian.AppendUint32(list, put(e[1]))
		list = append(list, make([]byte, 12)...)
	}
	head := append([]byte("glibc-ld.so.cache1.1"), make([]byte, 28)...)
	binary.NativeEndian.PutUint32(head[20:], uint32(len(entries)))
	return append(append(head, list...), text...)
}

func TestCached(t *testing.T) {
	cache := written([2]string{"libb.so.1", "/opt/b/libb.so.1"}, [2]string{"liba.so.1", "/lib/liba.so.1"}, [2]string{"libb.so.1", "relative"})
	foreign := bytes.Clone(cache)
	binary.NativeEndian.PutUint32(foreign[48:], 0x1234)
	many := bytes.Clone(cache)
	binary.NativeEndian.PutUint32(many[20:], 0xFFFFFFFF)
	astray := bytes.Clone(cache)
	binary.NativeEndian.PutUint32(astray[48+8:], 0xFFFFFFF0)
	for _, c := range []struct {
		name  string
		cache []byte
		want  []string
	}{
		{"valid", cache, []string{"/opt/b/libb.so.1"}},
		{"after the older format", append([]byte("ld.so-1.7.0\x00and its entries"), cache...), []string{"/opt/b/libb.so.1"}},
		{"another machine's", foreign, nil},
		{"more entries than bytes", many, nil},
		{"text beyond the end", astray, nil},
		{"cut off", cache[:60], nil},
		{"empty", nil, nil},
	} {
		if diff := cmp.Diff(c.want, cached(c.cache, "libb.so.1")); diff != "" {
			t.Errorf("%s (-want +got):\n%s", c.name, diff)
		}
	}
}

func FuzzCached(f *testing.F) {
	f.Add(written([2]string{"a", "/b"}), "a")
	f.Fuzz(func(t *testing.T, cache []byte, name string) {
		for _, file := range cached(cache, name) {
			if !filepath.IsAbs(file) {
				t.Errorf("%q", file)
			}
		}
	})
}

// needing builds liba.so, which needs libb.so in the directory "own" next to it.
func needing(t *testing.T) (dir string) {
	t.Helper()
	if _, err := exec.LookPath("cc"); err != nil && os.Getenv("DCM_E2E") != "require" {
		t.Skip("there is no C compiler (cc)")
	}
	dir = t.TempDir()
	for _, command := range [][]string{
		{"mkdir", "own"},
		{"cc", "-shared", "-fPIC", "-Wl,-soname,libb-of-test.so", "-o", "own/libb-of-test.so", "-x", "c", "/dev/null"},
		{"cc", "-shared", "-fPIC", "-Wl,-rpath,$ORIGIN/own", "-Wl,--no-as-needed", "-o", "liba.so", "-x", "c", "/dev/null", "-Lown", "-x", "none", "-lb-of-test"},
	} {
		cmd := exec.Command(command[0], command[1:]...)
		cmd.Dir = dir
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("%v: %v\n%s", command, err, out)
		}
	}
	return dir
}

func TestLoader_DependenciesFirst(t *testing.T) {
	dir := needing(t)
	var order, names []string
	loader := func() *Loader {
		order = nil
		return &Loader{
			Trust: TrustOf(os.Getuid()),
			Open: func(path string) (uintptr, error) {
				file, err := os.Readlink(path)
				order, names = append(order, filepath.Base(file)), append(names, path)
				return 1, err
			},
			Loaded: func(name string) bool { return name == "libc.so.6" },
		}
	}
	if _, err := loader().Load(filepath.Join(dir, "liba.so")); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]string{"libb-of-test.so", "liba.so"}, order); diff != "" {
		t.Errorf("loaded (-want +got):\n%s", diff)
	}
	runtime.GC() // runs the finalizers of unreferenced files
	runtime.GC() // waits for the sweep of the first
	for i, name := range names {
		if file, err := os.Readlink(name); err != nil || filepath.Base(file) != order[i] {
			t.Errorf("%s, as which %s was loaded, is %q now, %v", name, order[i], file, err)
		}
	}
	if _, err := loader().Load("libnone-of-test.so"); !errors.Is(err, ErrAbsent) {
		t.Errorf("missing library: got %v", err)
	}
	if err := os.Chmod(filepath.Join(dir, "own/libb-of-test.so"), 0o777); err != nil {
		t.Fatal(err)
	}
	var untrusted *UntrustedError
	if _, err := loader().Load(filepath.Join(dir, "liba.so")); !errors.As(err, &untrusted) || len(order) > 0 {
		t.Errorf("dependency that other users can write to: got %v, loaded %v", err, order)
	}
}
