package systemd

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// tree reads every file below dir.
func tree(t *testing.T, dir string) map[string]string {
	t.Helper()
	files := map[string]string{}
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		rel, _ := filepath.Rel(dir, path)
		text, err := os.ReadFile(path)
		files[rel] = string(text)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return files
}

func write(t *testing.T, path, text string) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
}

// directives strips the comments.
func directives(text string) string {
	var out []string
	for line := range strings.Lines(text) {
		if !strings.HasPrefix(line, "#") {
			out = append(out, strings.TrimSpace(line))
		}
	}
	return strings.Join(out, "|")
}

func TestDropins_Clients(t *testing.T) {
	const (
		ordered = "[Unit]|After=dcm-apply.service|PartOf=dcm-apply.service"
		late    = "|DefaultDependencies=no|Requires=sysinit.target|After=sysinit.target|Conflicts=shutdown.target|Before=shutdown.target"
	)
	for _, tt := range []struct {
		name    string
		clients []string
		require bool
		want    map[string]string
	}{
		{"none", nil, false, map[string]string{}},
		{"a service", []string{"gpuagent.service"}, false, map[string]string{"gpuagent.service.d/50-dcm.conf": ordered}},
		{"required", []string{"gpuagent.service"}, true,
			map[string]string{"gpuagent.service.d/50-dcm.conf": ordered + "|Requires=dcm-apply.service"}},
		{"a template, an instance and another type", []string{"vllm@.service", "vllm@a.service", "gpu.target"}, false,
			map[string]string{"vllm@.service.d/50-dcm.conf": ordered, "vllm@a.service.d/50-dcm.conf": ordered, "gpu.target.d/50-dcm.conf": ordered}},
		{"units that systemd starts before services", []string{"feed.socket", "new@.path", "nightly.timer"}, false, map[string]string{
			"feed.socket.d/50-dcm.conf": ordered + late, "new@.path.d/50-dcm.conf": ordered + late, "nightly.timer.d/50-dcm.conf": ordered}},
		{"an escaped name", []string{`srv-a\x2db.mount`}, false, map[string]string{`srv-a\x2db.mount.d/50-dcm.conf`: ordered}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			got := Order{Clients: tt.clients, Require: tt.require}.Dropins()
			for file, text := range got {
				if !strings.HasPrefix(text, "# Written by dcm-generator") || !strings.Contains(text, "man dcm.toml") {
					t.Errorf("%s does not name its generator:\n%s", file, text)
				}
				got[file] = directives(text)
			}
			if diff := cmp.Diff(tt.want, got); diff != "" {
				t.Errorf("drop-ins (-want +got):\n%s", diff)
			}
		})
	}
}

func TestGenerate(t *testing.T) {
	dir := t.TempDir()
	foreign := map[string]string{"gpuagent.service.d/10-other.conf": "x", "other.service": "y", "lone.service.d/10-other.conf": "z"}
	for file, text := range foreign {
		write(t, filepath.Join(dir, file), text)
	}
	for _, step := range []struct {
		name    string
		clients []string
		require bool
	}{
		{"first", []string{"gpuagent.service", "lone.service", "vllm@.service"}, false},
		{"again", []string{"gpuagent.service", "lone.service", "vllm@.service"}, false},
		{"one client fewer", []string{"gpuagent.service", "gpuagent.service"}, false},
		{"another text", []string{"gpuagent.service"}, true},
		{"none", nil, false},
	} {
		if err := Generate(dir, Order{Clients: step.clients, Require: step.require}); err != nil {
			t.Fatalf("%s: %v", step.name, err)
		}
		want := Order{Clients: step.clients, Require: step.require}.Dropins()
		differ, err := Differing(dir, want)
		if err != nil || len(differ) > 0 {
			t.Errorf("%s: right after Generate %q differ, %v", step.name, differ, err)
		}
		for file, text := range foreign {
			want[file] = text
		}
		if diff := cmp.Diff(want, tree(t, dir)); diff != "" {
			t.Errorf("%s: files (-want +got):\n%s", step.name, diff)
		}
	}
	if _, err := os.Stat(filepath.Join(dir, "vllm@.service.d")); err == nil {
		t.Error("an empty drop-in directory remains")
	}
}

func TestGenerate_InvalidNames(t *testing.T) {
	for _, tt := range []struct{ name, unit string }{
		{"parent", "../evil.service"},
		{"absolute", "/etc/systemd/system/evil.service"},
		{"inner separator", "a/b.service"},
		{"dots", ".."},
		{"newline", "a\nb.service"},
		{"NUL", "a\x00b.service"},
		{"empty", ""},
		{"blank", "a b.service"},
		{"glob", "*.service"},
		{"no type: service.d applies to every service", "service"},
		{"no stem", ".service"},
		{"no unit type", "gpuagent.conf"},
		{"prefix: a-.service.d applies to every a-*.service", "a-.service"},
		{"prefix of a template", "a-@.service"},
		{"itself", "dcm-apply.service"},
		{"not ASCII", "gpü.service"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			top := t.TempDir()
			dir := filepath.Join(top, "a", "normal")
			write(t, filepath.Join(dir, "keep"), "")
			if err := Generate(dir, Order{Clients: []string{tt.unit, "good.service"}}); err == nil {
				t.Errorf("no error for %q", tt.unit)
			}
			want := map[string]string{"a/normal/keep": ""}
			for file, text := range (Order{Clients: []string{"good.service"}}).Dropins() {
				want["a/normal/"+file] = text
			}
			if diff := cmp.Diff(want, tree(t, top)); diff != "" {
				t.Errorf("files (-want +got):\n%s", diff)
			}
		})
	}
}

func TestGenerate_SymbolicLinks(t *testing.T) {
	for _, tt := range []struct{ name, link, target string }{
		{"the directory", "gpuagent.service.d", "."},
		{"the file", "gpuagent.service.d/50-dcm.conf", "victim"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			outside, dir := t.TempDir(), t.TempDir()
			write(t, filepath.Join(outside, "victim"), "untouched")
			link := filepath.Join(dir, tt.link)
			if err := os.MkdirAll(filepath.Dir(link), 0o755); err != nil {
				t.Fatal(err)
			}
			if err := os.Symlink(filepath.Join(outside, tt.target), link); err != nil {
				t.Fatal(err)
			}
			err := Generate(dir, Order{Clients: []string{"gpuagent.service"}})
			if diff := cmp.Diff(map[string]string{"victim": "untouched"}, tree(t, outside)); diff != "" {
				t.Errorf("outside, with error %v (-want +got):\n%s", err, diff)
			}
		})
	}
}

func TestGenerate_LinkToTheSameText(t *testing.T) {
	dir, file := t.TempDir(), "a.service.d/50-dcm.conf"
	write(t, filepath.Join(dir, "a.service.d/other"), Order{Clients: []string{"a.service"}}.Dropins()[file])
	if err := os.Symlink("other", filepath.Join(dir, file)); err != nil {
		t.Fatal(err)
	}
	if err := Generate(dir, Order{Clients: []string{"a.service"}}); err != nil {
		t.Fatal(err)
	}
	if info, err := os.Lstat(filepath.Join(dir, file)); err != nil || !info.Mode().IsRegular() {
		t.Errorf("the drop-in is %v, %v, want a regular file", info, err)
	}
}

func TestDiffering(t *testing.T) {
	want := Order{Clients: []string{"a.service", "b.service"}}.Dropins()
	for _, tt := range []struct {
		name   string
		change func(dir string) error
		stale  bool
	}{
		{"none", func(string) error { return nil }, false},
		{"another generator's file", func(dir string) error { return os.WriteFile(filepath.Join(dir, "x.service"), nil, 0o644) }, false},
		{"missing", func(dir string) error { return os.Remove(filepath.Join(dir, "a.service.d/50-dcm.conf")) }, true},
		{"different", func(dir string) error { return os.WriteFile(filepath.Join(dir, "a.service.d/50-dcm.conf"), nil, 0o644) }, true},
		{"longer", func(dir string) error {
			return os.WriteFile(filepath.Join(dir, "a.service.d/50-dcm.conf"), []byte(want["a.service.d/50-dcm.conf"]+"#"), 0o644)
		}, true},
		{"a link to the same", func(dir string) error {
			file := filepath.Join(dir, "a.service.d/50-dcm.conf")
			return errors.Join(os.Rename(file, file+".same"), os.Symlink(file+".same", file))
		}, true},
		{"another generator's directory", func(dir string) error { return os.Mkdir(filepath.Join(dir, "z.service.d"), 0o755) }, false},
		{"extra", func(dir string) error {
			return Generate(dir, Order{Clients: []string{"a.service", "b.service", "c.service"}})
		}, true},
		{"another one", func(dir string) error { return Generate(dir, Order{Clients: []string{"a.service", "c.service"}}) }, true},
		{"no directory", os.RemoveAll, true},
	} {
		t.Run(tt.name, func(t *testing.T) {
			dir := t.TempDir()
			if err := Generate(dir, Order{Clients: []string{"a.service", "b.service"}}); err != nil {
				t.Fatal(err)
			}
			if err := tt.change(dir); err != nil {
				t.Fatal(err)
			}
			if got, err := Differing(dir, want); err != nil || len(got) > 0 != tt.stale {
				t.Errorf("%q differ, %v, want any: %v", got, err, tt.stale)
			}
		})
	}
	if got, err := Differing(filepath.Join(t.TempDir(), "none"), nil); err != nil || len(got) > 0 {
		t.Errorf("nothing wanted and no directory: %q differ, %v", got, err)
	}
}
