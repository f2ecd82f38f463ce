package selection

import (
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/sys/unix"

	"dcm/internal/engine/config"
	"dcm/internal/engine/config/configtest"
	"dcm/internal/engine/config/source"
)

// three profiles, defined below what selects.
const three = "[profiles.a]\ncompute = \"SPX\"\n[profiles.\"b c\"]\ncompute = \"CPX\"\n[profiles.d]\ncompute = \"DPX\"\n"

// selects fails unless the configuration selects the profile by that file.
func selects(t *testing.T, p config.Paths, name, source string) *config.Config {
	t.Helper()
	c, err := config.Load(p)
	configtest.Must(t, err)
	if got := strings.TrimPrefix(c.Source, configtest.RootOf(p)); c.Selected != name || got != source {
		t.Errorf("selected %q by %q, want %q by %q", c.Selected, got, name, source)
	}
	return c
}

func TestSelect_EditsOneLine(t *testing.T) {
	p := configtest.Files{
		"etc/dcm/dcm.toml":              "# ours\nprofile = \"a\" # for now\n",
		"etc/dcm/dcm.toml.d/50-x.toml":  three,
		"etc/dcm/dcm.toml.d/README.txt": "",
	}.Write(t)
	configtest.Must(t, Select(p, "b c"))
	selects(t, p, "b c", "/etc/dcm/dcm.toml:2")
	configtest.Must(t, os.WriteFile(p.Admin, []byte("profile = \"d\"\n"), 0o644))
	selects(t, p, "d", "/etc/dcm/dcm.toml:1")
	configtest.Must(t, Select(p, config.None))
	selects(t, p, "", "/etc/dcm/dcm.toml:1")
	configtest.Must(t, Select(p, ""))
	selects(t, p, "", "")
	if got := configtest.Content(t, p.Admin); got != "" {
		t.Errorf("the file is %q", got)
	}
}

func TestSelect_CreatesFileFromTemplate(t *testing.T) {
	p := configtest.Files{"usr/share/dcm/dcm.toml": "# head\n#profile = \"x\"\n[apply]\n", "usr/lib/dcm/dcm.toml.d/1.toml": three}.Write(t)
	configtest.Must(t, Select(p, "a"))
	if diff := cmp.Diff("# head\n#profile = \"x\"\nprofile = \"a\"\n[apply]\n", configtest.Content(t, p.Admin)); diff != "" {
		t.Errorf("dcm.toml (-want +got):\n%s", diff)
	}
	info, err := os.Stat(p.Admin)
	configtest.Must(t, err)
	if info.Mode() != 0o644 {
		t.Errorf("mode %v", info.Mode())
	}
	configtest.Must(t, os.Remove(p.Admin))
	configtest.Must(t, os.Remove(p.Template))
	configtest.Must(t, Select(p, "d"))
	selects(t, p, "d", "/etc/dcm/dcm.toml:1")
}

func TestSelect_RefusedWithoutEffect(t *testing.T) {
	for _, test := range []struct {
		name string
		over configtest.Files
		want string
	}{
		{"drop-in", configtest.Files{"etc/dcm/dcm.toml.d/50.toml": "\nprofile = \"d\"\n"}, "/etc/dcm/dcm.toml.d/50.toml:2 selects d"},
		{"drop-in that says the same", configtest.Files{"etc/dcm/dcm.toml.d/50.toml": "profile = \"b c\"\n"}, "/etc/dcm/dcm.toml.d/50.toml:1 selects b c"},
		{"drop-in that selects none", configtest.Files{"etc/dcm/dcm.toml.d/50.toml": "profile = \"\"\n"}, "/etc/dcm/dcm.toml.d/50.toml:1 selects none"},
		{"another program's drop-in until reboot", configtest.Files{"run/dcm/dcm.toml.d/10.toml": "profile = \"d\"\n"}, "/run/dcm/dcm.toml.d/10.toml:1 selects d"},
		{"kernel command line", configtest.Files{"proc/cmdline": "dcm.profile=d"}, "kernel command line selects d"},
	} {
		t.Run(test.name, func(t *testing.T) {
			test.over["etc/dcm/dcm.toml"] = "profile = \"a\"\n" + three
			p := test.over.Write(t)
			for _, name := range []string{"b c", config.None, ""} {
				err := Select(p, name)
				if err == nil || !strings.Contains(strings.ReplaceAll(err.Error(), configtest.RootOf(p), ""), "nothing was changed: "+test.want+", which has precedence over /etc/dcm/dcm.toml") {
					t.Errorf("%q: %v", name, err)
				}
			}
			if got := configtest.Content(t, p.Admin); got != "profile = \"a\"\n"+three {
				t.Errorf("the file is\n%s", got)
			}
		})
	}
}

func TestSelect_BadName(t *testing.T) {
	p := configtest.Files{"etc/dcm/dcm.toml": three}.Write(t)
	for name, want := range map[string]string{
		"a\nprofile = \"b\"": `not a valid profile name; accepted: at most 64 bytes`,
		"dd":                 `nothing was changed: `,
	} {
		for said, do := range map[string]func(config.Paths, string) error{": ": Select, " until reboot: ": SelectRuntime} {
			err := do(p, name)
			if err == nil || !strings.HasPrefix(err.Error(), "cannot select profile "+source.QuoteShort(name)+said+want) {
				t.Errorf("got %v, want %s", err, want)
			}
		}
	}
	if got := configtest.Content(t, p.Admin); got != three {
		t.Errorf("the file is\n%s", got)
	}
}

func TestSelect_KeepsOwnerModeAndLink(t *testing.T) {
	p := configtest.Files{"etc/site/dcm.toml": three}.Write(t)
	file := filepath.Join(configtest.RootOf(p), "etc/site/dcm.toml")
	configtest.Must(t, os.MkdirAll(filepath.Dir(p.Admin), 0o755))
	configtest.Must(t, os.Symlink("../site/dcm.toml", p.Admin))
	configtest.Must(t, os.Chmod(file, 0o640))
	configtest.Must(t, os.Chown(file, -1, someGroup(t)))
	kept := unix.Setxattr(file, "user.note", []byte("ours"), 0) == nil
	configtest.Must(t, os.WriteFile(filepath.Join(filepath.Dir(file), ".dcm.toml.dcm-123"), nil, 0o600)) // a killed one's
	before, err := os.Stat(file)
	configtest.Must(t, err)
	configtest.Must(t, Select(p, "a"))
	if target, err := os.Readlink(p.Admin); err != nil || target != "../site/dcm.toml" {
		t.Errorf("the link is %q, %v", target, err)
	}
	after, err := os.Stat(file)
	configtest.Must(t, err)
	if after.Mode() != before.Mode() || gid(after) != gid(before) {
		t.Errorf("%v of group %d became %v of group %d", before.Mode(), gid(before), after.Mode(), gid(after))
	}
	value := make([]byte, 10)
	if n, err := unix.Getxattr(file, "user.note", value); kept && string(value[:max(n, 0)]) != "ours" {
		t.Errorf("the attribute is %q, %v", value, err)
	}
	if entries, _ := os.ReadDir(filepath.Dir(file)); len(entries) != 1 {
		t.Errorf("the directory holds %v", entries)
	}
}

// An editor that saves meanwhile must not lose what it saved.
func TestSelect_ConcurrentEdit(t *testing.T) {
	p := configtest.Files{"etc/dcm/dcm.toml": three}.Write(t)
	file, err := openAdminFile(p)
	configtest.Must(t, err)
	configtest.Must(t, os.WriteFile(p.Admin, []byte(three+"# more\n"), 0o644))
	configtest.Must(t, os.Chtimes(p.Admin, time.Time{}, time.Now().Add(time.Second)))
	if err := file.replace("x"); err == nil || !strings.Contains(err.Error(), "changed by another program") {
		t.Errorf("got %v", err)
	}
	if entries, _ := os.ReadDir(filepath.Dir(p.Admin)); len(entries) != 1 || configtest.Content(t, p.Admin) != three+"# more\n" {
		t.Errorf("got %q and the files %v", configtest.Content(t, p.Admin), entries)
	}
}

func TestSelectRuntime(t *testing.T) {
	const passing = "/run/dcm/dcm.toml.d/zz-selected.toml:3"
	p := configtest.Files{"etc/dcm/dcm.toml": "profile = \"a\"\n" + three}.Write(t)
	configtest.Must(t, SelectRuntime(p, "b c"))
	configtest.Must(t, SelectRuntime(p, "d"))
	c := selects(t, p, "d", passing)
	if c.Persistent != "a" || c.Ended != "" || len(c.Warnings) > 0 {
		t.Errorf("permanent %q, ended %q, warnings %q", c.Persistent, c.Ended, c.Warnings)
	}
	t.Run("outlives another edit", func(t *testing.T) {
		configtest.Must(t, os.WriteFile(p.Admin, []byte("[apply]\nreboot = \"once\"\n[clients]\n"+three), 0o644))
		configtest.Must(t, os.WriteFile(p.Local+".x", nil, 0o644))
		configtest.Must(t, os.WriteFile(p.Admin, []byte("version = 1\nprofile = 'a'\n"+three), 0o644))
		selects(t, p, "d", passing)
	})
	t.Run("is ended by an edit of the profile", func(t *testing.T) {
		configtest.Must(t, os.WriteFile(p.Admin, []byte("profile = \"b c\"\n"+three), 0o644))
		c := selects(t, p, "b c", "/etc/dcm/dcm.toml:1")
		want := "the selection of d until reboot has ended: it replaced a, and now /etc/dcm/dcm.toml:1 selects b c"
		if diff := cmp.Diff(want, strings.ReplaceAll(c.Ended, configtest.RootOf(p), "")); diff != "" {
			t.Errorf("ended (-want +got):\n%s", diff)
		}
		configtest.Must(t, ClearRuntime(p))
		configtest.Must(t, ClearRuntime(p))
		selects(t, p, "b c", "/etc/dcm/dcm.toml:1")
	})
	t.Run("is ended by the removal of the profile", func(t *testing.T) {
		configtest.Must(t, SelectRuntime(p, "d"))
		configtest.Must(t, os.WriteFile(p.Admin, []byte(three), 0o644))
		selects(t, p, "", "")
		configtest.Must(t, SelectRuntime(p, "d"))
		selects(t, p, "d", passing)
	})
	t.Run("is ended by use", func(t *testing.T) {
		configtest.Must(t, Select(p, "a"))
		selects(t, p, "a", "/etc/dcm/dcm.toml:1")
		if _, err := os.Stat(p.RuntimeSelection()); err == nil {
			t.Error("its file is there")
		}
	})
	t.Run("of none", func(t *testing.T) {
		configtest.Must(t, SelectRuntime(p, config.None))
		selects(t, p, "", passing)
		configtest.Must(t, ClearRuntime(p))
	})
	t.Run("is refused if the kernel command line selects", func(t *testing.T) {
		configtest.Must(t, os.MkdirAll(filepath.Dir(p.Cmdline), 0o755))
		configtest.Must(t, os.WriteFile(p.Cmdline, []byte("dcm.profile=a"), 0o644))
		if err := SelectRuntime(p, "d"); err == nil || !strings.Contains(err.Error(), "kernel command line selects a") {
			t.Errorf("got %v", err)
		}
	})
}

func gid(info os.FileInfo) uint32 {
	return info.Sys().(*syscall.Stat_t).Gid
}

// someGroup is a group that the tester may give files to.
func someGroup(t *testing.T) int {
	if os.Geteuid() == 0 {
		return 65534
	}
	groups, err := os.Getgroups()
	configtest.Must(t, err)
	return append(groups, os.Getgid())[0]
}
