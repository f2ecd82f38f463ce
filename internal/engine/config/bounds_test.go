package config_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"dcm/internal/engine/config"
	"dcm/internal/engine/config/configtest"
)

// The files are no TOML either, of which nothing is said: they are not read.
func TestLoad_Limits(t *testing.T) {
	many := func(n int, name, text string) configtest.Files {
		f := make(configtest.Files)
		for i := range n {
			f[fmt.Sprintf("etc/dcm/dcm.toml.d/%04d-%s", i, name)] = text
		}
		return f
	}
	for _, test := range []struct {
		name  string
		files configtest.Files
		want  string
	}{
		{"files", many(101, "x.toml", "!"), "/etc/dcm/dcm.toml.d: too many configuration files (found 101, 101 of them here, want at most 100)"},
		{"bytes", many(90, "x.toml", strings.Repeat("!", 25<<10)), "/etc/dcm/dcm.toml.d: configuration files too large (found 2304000 bytes in total, want at most 2097152)"},
		{"other files", many(1001, "README", "!"), "/etc/dcm/dcm.toml.d: too many entries in the directory (want at most 1000)"},
	} {
		t.Run(test.name, func(t *testing.T) {
			if diff := cmp.Diff(test.want, configtest.Complaint(t, test.files.Write(t))); diff != "" {
				t.Errorf("problems (-want +got):\n%s", diff)
			}
		})
	}
	if _, err := config.Load(many(100, "x.toml", "# "+strings.Repeat("x", 20<<10)).Write(t)); err != nil {
		t.Errorf("within all limits: %v", err)
	}
}

func TestLoad_UnsafeParentDirectory(t *testing.T) {
	p := configtest.Files{"etc/dcm/dcm.toml": "version = 1\n"}.Write(t)
	configtest.Must(t, os.Chmod(filepath.Join(configtest.RootOf(p), "etc"), 0o777))
	want := "/etc: unsafe: group or others can write to it (mode 0777). hint: chmod go-w /etc"
	if diff := cmp.Diff(want, configtest.Complaint(t, p)); diff != "" {
		t.Errorf("problems (-want +got):\n%s", diff)
	}

	// The first link leads to a safe file, by way of a second one that others can replace.
	p = configtest.Files{"etc/site/dcm.toml": "version = 1\n", "srv/open/README": ""}.Write(t)
	configtest.Must(t, os.Chmod(filepath.Join(configtest.RootOf(p), "srv/open"), 0o777))
	configtest.Must(t, os.MkdirAll(filepath.Dir(p.Admin), 0o755))
	configtest.Must(t, os.Symlink("../../srv/open/link", p.Admin))
	configtest.Must(t, os.Symlink("../../etc/site/dcm.toml", filepath.Join(configtest.RootOf(p), "srv/open/link")))
	want = "/srv/open: unsafe: group or others can write to it (mode 0777). hint: chmod go-w /srv/open"
	if diff := cmp.Diff(want, configtest.Complaint(t, p)); diff != "" {
		t.Errorf("problems (-want +got):\n%s", diff)
	}
	configtest.Must(t, os.Chmod(filepath.Join(configtest.RootOf(p), "srv/open"), 0o755))
	if _, err := config.Load(p); err != nil {
		t.Error(err)
	}
}

func TestWithAdminText_AnyOwner(t *testing.T) {
	p := configtest.Files{"tmp/new.toml": "version = 1\n"}.Write(t)
	p.Admin = filepath.Join(configtest.RootOf(p), "tmp/new.toml")
	configtest.Must(t, os.Chmod(filepath.Dir(p.Admin), 0o777))
	configtest.Must(t, os.Chmod(p.Admin, 0o666))
	if got := configtest.Complaint(t, p); !strings.Contains(got, "others can write to it") {
		t.Errorf("it is used: %s", got)
	}
	p.Judged = true
	if _, err := config.Load(p); err != nil {
		t.Error(err)
	}
}
