package hostimage_test

import (
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/fstest"

	"dcm/internal/app/hostimage"
)

// image has what is shipped, as make host-image lays it out.
func image(t *testing.T) fstest.MapFS {
	t.Helper()
	out := fstest.MapFS{"usr/libexec/dcm/dcm-service": {Data: []byte("service")}, "usr/bin/dcm": {Data: []byte("dcm")}}
	files := map[string]string{"usr/share/dcm/dcm.toml": "packaging/dcm.toml",
		"usr/share/dbus-1/system.d/org.deviceconfig.Manager1.conf": "packaging/dbus/org.deviceconfig.Manager1.conf"}
	for _, unit := range hostimage.Units() {
		files["usr/lib/systemd/system/"+unit] = "systemd/" + unit
	}
	for at, from := range files {
		text, err := os.ReadFile(filepath.Join("../../..", from))
		if err != nil {
			t.Fatal(err)
		}
		out[at] = &fstest.MapFile{Data: text}
	}
	return out
}

func load(t *testing.T) hostimage.Image {
	t.Helper()
	c, err := hostimage.Load(image(t))
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func text(t *testing.T, parts ...string) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(parts...))
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

func TestInstall_UnitsUseHostPrograms(t *testing.T) {
	host := t.TempDir()
	if err := load(t).Install(host); err != nil {
		t.Fatal(err)
	}
	for _, unit := range []string{"dcm.service", "dcm-apply.service", "dcm-reserve.service", "dcm-agent.service"} {
		got := text(t, host, "run/systemd/system", unit)
		if strings.Contains(got, "=/usr/libexec") || !strings.Contains(got, "\nExecStart=/var/lib/dcm/image/dcm-service ") {
			t.Errorf("%s has\n%s", unit, got)
		}
	}
	if to, err := os.Readlink(filepath.Join(host, "run/systemd/system-generators/dcm-generator")); err != nil || to != "/var/lib/dcm/image/dcm-service" {
		t.Errorf("the generator is %s, %v", to, err)
	}
	info, err := os.Stat(filepath.Join(host, "var/lib/dcm/image/dcm"))
	if err != nil || info.Mode() != 0o755 {
		t.Errorf("dcm is %v, %v", info, err)
	}
}

func TestInstall_KeepsExistingFiles(t *testing.T) {
	host := t.TempDir()
	mine := filepath.Join(host, "etc/dcm/dcm.toml")
	if err := os.MkdirAll(filepath.Dir(mine), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(mine, []byte("mine"), 0o600); err != nil {
		t.Fatal(err)
	}
	c := load(t)
	if err := c.Install(host); err != nil {
		t.Fatal(err)
	}
	before := numbers(t, host)
	if err := c.Install(host); err != nil {
		t.Fatal(err)
	}
	for path, n := range numbers(t, host) {
		if !os.SameFile(before[path], n) {
			t.Errorf("%s: replaced, want it kept", path)
		}
	}
	if got := text(t, mine); got != "mine" {
		t.Errorf("dcm.toml has %q", got)
	}
}

func numbers(t *testing.T, dir string) map[string]fs.FileInfo {
	t.Helper()
	out := make(map[string]fs.FileInfo)
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err == nil && !d.IsDir() {
			out[path], err = d.Info()
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return out
}

func TestRemove_KeepsAdministratorFiles(t *testing.T) {
	host := t.TempDir()
	c := load(t)
	if err := c.Install(host); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		if err := hostimage.RemoveGenerator(host); err != nil {
			t.Fatal(err)
		}
		if err := c.Remove(host); err != nil {
			t.Fatal(err)
		}
	}
	left := numbers(t, host)
	if len(left) != 1 || left[filepath.Join(host, "etc/dcm/dcm.toml")] == nil {
		t.Errorf("left are %v", left)
	}
}

// A copy that is killed leaves a part of a program in addition to the complete ones.
func TestInstall_RemovesRemainsOfKilled(t *testing.T) {
	host := t.TempDir()
	c := load(t)
	if err := c.Install(host); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(host, hostimage.Programs, ".dcm123"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := c.Remove(host); err != nil {
		t.Error(err)
	}
	if _, err := os.Lstat(filepath.Join(host, hostimage.Programs)); err == nil {
		t.Error("the programs' directory is still there")
	}
}

func TestInstall_IncompleteImage(t *testing.T) {
	i := image(t)
	delete(i, "usr/lib/systemd/system/dcm.slice")
	if _, err := hostimage.Load(i); err == nil || !strings.Contains(err.Error(), "dcm.slice") {
		t.Errorf("error is %v", err)
	}
}

func TestInstall_PackageIsInstalled(t *testing.T) {
	host := t.TempDir()
	if hostimage.HasPackage(host) {
		t.Error("seen where there is none")
	}
	at := filepath.Join(host, "usr/lib/systemd/system/dcm-apply.service")
	if err := os.MkdirAll(filepath.Dir(at), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(at, nil, 0o644); err != nil {
		t.Fatal(err)
	}
	if !hostimage.HasPackage(host) {
		t.Error("not seen")
	}
}
