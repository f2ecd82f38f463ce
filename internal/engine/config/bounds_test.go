package config

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// The files are no TOML either, of which nothing is said: they are not read.
func TestTooMuchIsRefusedBeforeItIsRead(t *testing.T) {
	many := func(n int, name, text string) files {
		f := make(files)
		for i := range n {
			f[fmt.Sprintf("etc/dcm/dcm.toml.d/%04d-%s", i, name)] = text
		}
		return f
	}
	for _, test := range []struct {
		name  string
		files files
		want  string
	}{
		{"files", many(101, "x.toml", "!"), "/etc/dcm/dcm.toml.d: refused: there are 101 configuration files, 101 of them here; accepted: at most 100"},
		{"bytes", many(90, "x.toml", strings.Repeat("!", 25<<10)), "/etc/dcm/dcm.toml.d: refused: the configuration files are 2304000 bytes together; accepted: at most 2097152"},
		{"other files", many(1001, "README", "!"), "/etc/dcm/dcm.toml.d: refused: the directory holds more than 1000 entries"},
	} {
		t.Run(test.name, func(t *testing.T) {
			if diff := cmp.Diff(test.want, complaint(t, write(test.files, t))); diff != "" {
				t.Errorf("problems (-want +got):\n%s", diff)
			}
		})
	}
	if _, err := Load(write(many(100, "x.toml", "# "+strings.Repeat("x", 20<<10)), t)); err != nil {
		t.Errorf("within all limits: %v", err)
	}
}

func TestEveryDirectoryOnTheWayIsJudged(t *testing.T) {
	p := write(files{"etc/dcm/dcm.toml": "version = 1\n"}, t)
	must(t, os.Chmod(filepath.Join(rootOf(p), "etc"), 0o777))
	want := "/etc: refused: its group or others can write to it (mode 0777): chmod go-w /etc"
	if diff := cmp.Diff(want, complaint(t, p)); diff != "" {
		t.Errorf("problems (-want +got):\n%s", diff)
	}

	// The first link leads to a safe file, by way of a second one that others can replace.
	p = write(files{"etc/site/dcm.toml": "version = 1\n", "srv/open/README": ""}, t)
	must(t, os.Chmod(filepath.Join(rootOf(p), "srv/open"), 0o777))
	must(t, os.MkdirAll(filepath.Dir(p.Admin), 0o755))
	must(t, os.Symlink("../../srv/open/link", p.Admin))
	must(t, os.Symlink("../../etc/site/dcm.toml", filepath.Join(rootOf(p), "srv/open/link")))
	want = "/srv/open: refused: its group or others can write to it (mode 0777): chmod go-w /srv/open"
	if diff := cmp.Diff(want, complaint(t, p)); diff != "" {
		t.Errorf("problems (-want +got):\n%s", diff)
	}
	must(t, os.Chmod(filepath.Join(rootOf(p), "srv/open"), 0o755))
	if _, err := Load(p); err != nil {
		t.Error(err)
	}
}

func TestAFileThatIsOnlyJudgedMayBeAnybodys(t *testing.T) {
	p := write(files{"tmp/new.toml": "version = 1\n"}, t)
	p.Admin = filepath.Join(rootOf(p), "tmp/new.toml")
	must(t, os.Chmod(filepath.Dir(p.Admin), 0o777))
	must(t, os.Chmod(p.Admin, 0o666))
	if got := complaint(t, p); !strings.Contains(got, "others can write to it") {
		t.Errorf("it is used: %s", got)
	}
	p.Judged = true
	if _, err := Load(p); err != nil {
		t.Error(err)
	}
}
