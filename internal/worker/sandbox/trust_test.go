package sandbox

import (
	"errors"
	"io"
	"os"
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"
)

// tree creates a root with /good/lib.so, links to it of each kind, and something that is neither a
// file nor a directory.
func tree(t *testing.T) Trust {
	t.Helper()
	root := t.TempDir()
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	for _, dir := range []string{"good/deep", "open", "sticky"} {
		must(os.MkdirAll(filepath.Join(root, dir), 0o755))
	}
	for _, file := range []string{"good/lib.so", "open/lib.so", "sticky/lib.so", "writable.so"} {
		must(os.WriteFile(filepath.Join(root, file), []byte(file), 0o644))
	}
	for link, to := range map[string]string{
		"good/deep/up": "../lib.so", "absolute": "/good/deep/up", "loop": "loop", "astray": "open/lib.so", "dangling": "nothing",
	} {
		must(os.Symlink(to, filepath.Join(root, link)))
	}
	must(unix.Mkfifo(filepath.Join(root, "fifo"), 0o600))
	must(os.Chmod(filepath.Join(root, "open"), 0o777))
	must(os.Chmod(filepath.Join(root, "sticky"), 0o777|os.ModeSticky))
	must(os.Chmod(filepath.Join(root, "writable.so"), 0o646))
	return Trust{Root: root, User: os.Getuid(), overflow: -1}
}

func TestTrust_Open(t *testing.T) {
	trust := tree(t)
	for path, want := range map[string]string{
		"/good/lib.so": "good/lib.so", "/good/deep/up": "good/lib.so", "/absolute": "good/lib.so", "//good//./deep/../lib.so": "good/lib.so",
		"/sticky/lib.so": "sticky/lib.so",
	} {
		f, err := trust.Open(path)
		if err != nil {
			t.Errorf("%s: %v", path, err)
			continue
		}
		text, err := io.ReadAll(f)
		if err != nil || string(text) != want || f.Name() != "/"+want {
			t.Errorf("Open(%s): got %s with the content %q, %v; want %s", path, f.Name(), text, err, want)
		}
		f.Close()
	}
	for path, want := range map[string]string{"/open/lib.so": "/open", "/astray": "/open", "/writable.so": "/writable.so", "/fifo": "/fifo"} {
		var untrusted *UntrustedError
		if f, err := trust.Open(path); !errors.As(err, &untrusted) || untrusted.File != path || untrusted.At != want {
			t.Errorf("%s: %v, %v; want %s refused", path, f, err, want)
		}
	}
	for path, want := range map[string]error{
		"/nothing": unix.ENOENT, "/dangling": unix.ENOENT, "/loop": unix.ELOOP, "/good": unix.EISDIR, "/": unix.EISDIR, "/good/lib.so/x": unix.ENOTDIR,
	} {
		if f, err := trust.Open(path); !errors.Is(err, want) {
			t.Errorf("%s: %v, %v; want %v", path, f, err, want)
		}
	}
	if _, err := trust.Open("good/lib.so"); err == nil {
		t.Error("a relative path was opened")
	}
}

func TestTrust_Owners(t *testing.T) {
	for _, c := range []struct {
		trust Trust
		uid   int
		want  bool
	}{
		{Trust{User: 0, overflow: -1}, 0, true},
		{Trust{User: 0, overflow: -1}, 1000, false},
		{Trust{User: 0, overflow: -1}, 65534, false},
		{Trust{User: 1000, overflow: -1}, 1000, true},
		{Trust{User: 1000, overflow: -1}, 1001, false},
		{Trust{User: 1000, overflow: 65534}, 65534, true}, // root or another user: the kernel shows the same number
	} {
		if got := c.trust.owner(c.uid); got != c.want {
			t.Errorf("%+v trusts %d: %t", c.trust, c.uid, got)
		}
	}
}
