package packaging_test

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// host has replacements for the commands that install.sh runs. Each only prints its arguments.
type host struct {
	t   *testing.T
	dir string
	env []string
}

// The commands that answer by what the host's directory holds.
var answers = map[string]string{
	"id":         `echo 0`,
	"go":         `[ "$1" != version ] || echo "go version go$(cat "$HOST/go") linux/amd64"; [ "$1" != env ] || echo amd64`,
	"dpkg-query": `[ -e "$HOST/installed" ] && echo installed`,
	"rpm":        `[ -e "$HOST/installed" ] && echo 0:1-1`,
	"dcm":        `case $1 in check) echo "Host checks: 23 ok, 1 warning, 1 error."; false ;; *) cat "$HOST/status"; [ "$1" = status ] ;; esac`,
	"systemctl":  `case $1 in is-enabled) cat "$HOST/$2" ;; *) echo "systemctl $*" >>"$HOST/log" ;; esac`,
	"make":       `echo "make $*" >>"$HOST/log"`,
	"apt-get":    `echo "apt-get $*" >>"$HOST/log"`,
	"dnf":        `echo "dnf $*" >>"$HOST/log"`,
}

func newHost(t *testing.T, distribution string) *host {
	t.Helper()
	h := &host{t: t, dir: t.TempDir()}
	for name, script := range answers {
		h.program("bin/"+name, script)
	}
	h.write("go", "1.26.8")
	h.write("status", "○ No profile is selected; the GPUs are left alone")
	h.write("dcm.service", "disabled")
	h.write("dcm-apply.service", "disabled")
	h.write("log", "")
	h.write("os-release", distribution)
	h.env = []string{"PATH=" + h.dir + "/bin:/usr/bin:/bin", "HOST=" + h.dir, "OS_RELEASE=" + h.dir + "/os-release", "GO_PLACES=" + h.dir + "/other", "RUNS_SYSTEMD=" + h.dir}
	return h
}

func (h *host) program(name, script string) {
	h.t.Helper()
	path := filepath.Join(h.dir, name)
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		h.t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte("#!/bin/sh\n"+script+"\n"), 0o755); err != nil {
		h.t.Fatal(err)
	}
}

func (h *host) write(name, text string) {
	h.t.Helper()
	if err := os.WriteFile(filepath.Join(h.dir, name), []byte(text+"\n"), 0o644); err != nil {
		h.t.Fatal(err)
	}
}

// install runs install.sh and returns its output, and the commands that it ran.
func (h *host) install(args ...string) (output, commands string) {
	h.t.Helper()
	cmd := exec.Command("../install.sh", args...)
	cmd.Env = h.env
	out, err := cmd.CombinedOutput()
	if err != nil {
		out = fmt.Appendf(out, "%v", err)
	}
	return string(out), read(h.t, filepath.Join(h.dir, "log"))
}

const (
	debian = "ID=debian"
	rocky  = "ID=rocky\nID_LIKE=\"rhel centos fedora\""
)

func TestInstall_Distribution(t *testing.T) {
	for name, tt := range map[string]struct{ distribution, wants string }{
		"Debian":             {debian, "apt-get install"},
		"Ubuntu":             {"ID=ubuntu\nID_LIKE=debian", "apt-get install"},
		"Fedora, with apt":   {"ID=fedora", "dnf install"},
		"a clone of RHEL":    {rocky, "dnf install"},
		"one without a name": {"", "apt-get install"},
	} {
		t.Run(name, func(t *testing.T) {
			h := newHost(t, tt.distribution)
			h.program("bin/ls", "echo ./dist/dcm.rpm")
			if output, commands := h.install(); !strings.Contains(commands, tt.wants) {
				t.Errorf("%s\ncommands: %s", output, commands)
			}
		})
	}
}

func TestInstall_NewestGo(t *testing.T) {
	for name, tt := range map[string]struct{ path, other, wants string }{
		"the one in PATH":       {"1.26.8", "1.25.1", "make packages"},
		"a newer one elsewhere": {"1.19.8", "1.26.0", "make packages"},
		"none that is enough":   {"1.19.8", "1.9.1", "the newest Go found is 1.19.8 in "},
	} {
		t.Run(name, func(t *testing.T) {
			h := newHost(t, debian)
			h.write("go", tt.path)
			h.program("other/go", `echo "go version go`+tt.other+` linux/amd64"`)
			// As make finds it.
			h.program("bin/make", `echo "make $* with $(go version)" >>"$HOST/log"`)
			output, commands := h.install()
			if !strings.Contains(output+commands, tt.wants) {
				t.Errorf("%s\ncommands: %s", output, commands)
			}
			if strings.Contains(commands, "make packages") && !strings.Contains(commands, "go1.26") {
				t.Errorf("the wrong Go: %s", commands)
			}
		})
	}
}

func TestInstall_EnablesNewUnits(t *testing.T) {
	for name, tt := range map[string]struct {
		installed    bool
		was          string
		enables      bool
		says, silent string
	}{
		"new":                             {false, "disabled", true, "leaves the GPUs alone", "stays so"},
		"new, and the package enabled it": {false, "enabled", false, "leaves the GPUs alone", "stays so"},
		"new, and masked":                 {false, "masked", false, "dcm.service is masked and stays so", ""},
		"again, and disabled meanwhile":   {true, "disabled", false, "dcm.service is disabled and stays so", ""},
		"again":                           {true, "enabled", false, "leaves the GPUs alone", "stays so"},
	} {
		t.Run(name, func(t *testing.T) {
			h := newHost(t, debian)
			if tt.installed {
				h.write("installed", "")
			}
			h.write("dcm.service", tt.was)
			if tt.installed {
				h.write("dcm-apply.service", "enabled")
			}
			output, commands := h.install()
			if strings.Contains(commands, "enable dcm.service") != tt.enables {
				t.Errorf("commands: %s", commands)
			}
			if !strings.Contains(output, tt.says) || tt.silent != "" && strings.Contains(output, tt.silent) {
				t.Errorf("output: %s", output)
			}
		})
	}
}

func TestInstall_FinalMessage(t *testing.T) {
	h := newHost(t, debian)
	h.write("installed", "")
	h.write("status", "● Profile cpx-nps4 is on the GPUs")
	output, _ := h.install()
	if strings.Contains(output, "leaves the GPUs alone") || !strings.Contains(output, "cpx-nps4") {
		t.Errorf("output: %s", output)
	}
	if !strings.HasSuffix(output, "\nHost checks: 23 ok, 1 warning, 1 error.\n") {
		t.Errorf("the counts of the host checks are not last: %s", output)
	}
}

// The user who calls sudo owns the tree, and must be able to build in it afterwards.
func TestInstall_BuildsAsSudoUser(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("only root can change its user")
	}
	const nobody = 65534
	h := newHost(t, debian)
	h.program("bin/make", `mkdir -p dist; id >dist/who; echo "$HOME" >dist/home`)
	h.program("bin/getent", `echo "x:x:$2:$2::/home/$2:"`)
	os.Remove(filepath.Join(h.dir, "bin/id"))
	if err := os.Chmod(filepath.Dir(h.dir), 0o755); err != nil {
		t.Fatal(err)
	}
	h.env = append(h.env, fmt.Sprint("SUDO_UID=", nobody), fmt.Sprint("SUDO_GID=", nobody), "SUDO_USER=nobody")
	for _, owner := range []int{nobody, 0} {
		dir := t.TempDir()
		for _, file := range []string{"install.sh", "go.mod"} {
			if err := os.WriteFile(filepath.Join(dir, file), []byte(read(t, "../"+file)), 0o755); err != nil {
				t.Fatal(err)
			}
		}
		if err := os.Chown(dir, owner, owner); err != nil {
			t.Fatal(err)
		}
		cmd := exec.Command(dir + "/install.sh")
		cmd.Env = h.env
		out, err := cmd.CombinedOutput()
		if err != nil {
			t.Fatalf("%v\n%s", err, out)
		}
		if who := read(t, dir+"/dist/who"); !strings.HasPrefix(who, fmt.Sprintf("uid=%d(", owner)) {
			t.Errorf("in a tree of %d it built as %s", owner, who)
		}
		if home := read(t, dir+"/dist/home"); owner == nobody && home != "/home/65534\n" {
			t.Errorf("its caches are below %s", home)
		}
	}
}

// tree is a checkout with one commit.
func tree(t *testing.T) (dir string, git func(args ...string), version func() string) {
	t.Helper()
	need(t, "git")
	dir = t.TempDir()
	run := func(name string, args ...string) string {
		cmd := exec.Command(name, args...)
		cmd.Dir = dir
		cmd.Env = append(os.Environ(), "GIT_CONFIG_GLOBAL=/dev/null", "GIT_AUTHOR_NAME=a", "GIT_AUTHOR_EMAIL=a", "GIT_COMMITTER_NAME=a", "GIT_COMMITTER_EMAIL=a")
		out, err := cmd.CombinedOutput()
		if err != nil {
			t.Fatalf("%s %q: %v\n%s", name, args, err, out)
		}
		return strings.TrimSpace(string(out))
	}
	script := filepath.Join(dir, "packaging/version.sh")
	if err := os.MkdirAll(filepath.Dir(script), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(script, []byte(read(t, "version.sh")), 0o755); err != nil {
		t.Fatal(err)
	}
	return dir, func(args ...string) { run("git", args...) }, func() string { return run(script) }
}

func TestVersion_SortOrder(t *testing.T) {
	dir, git, version := tree(t)
	change := func(name string, second int) {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, nil, 0o644); err != nil {
			t.Fatal(err)
		}
		if out, err := exec.Command("touch", fmt.Sprintf("--date=@%d", 1_800_000_000+second), path).CombinedOutput(); err != nil {
			t.Fatalf("%v %s", err, out)
		}
	}
	versions := []string{version()}
	if versions[0] != "0.1.0" {
		t.Errorf("without git's history the version is %s", versions[0])
	}
	note := func() { versions = append(versions, version()) }
	git("init", "-q")
	git("add", "-A")
	git("commit", "-qm", "one")
	note()
	change("new file", 1)
	note()
	change("new file", 2)
	note()
	git("add", "-A")
	git("commit", "-qm", "two")
	note()
	git("tag", "-am", "x", "v0.1.1")
	note()
	change("another", 3)
	note()
	git("add", "-A")
	git("commit", "-qm", "three")
	note()
	if versions[5] != "0.1.1" {
		t.Errorf("at the tag the version is %s", versions[5])
	}
	for i := 1; i < len(versions); i++ {
		a, b := versions[i-1], versions[i]
		if _, err := exec.LookPath("dpkg"); err == nil && exec.Command("dpkg", "--compare-versions", a+"-1", "lt", b+"-1").Run() != nil {
			t.Errorf("to Debian %s is not before %s", a, b)
		}
		if _, err := exec.LookPath("rpm"); err == nil {
			out, err := exec.Command("rpm", "--eval", fmt.Sprintf(`%%{lua: print(rpm.vercmp("%s", "%s"))}`, a, b)).Output()
			if err != nil || strings.TrimSpace(string(out)) != "-1" {
				t.Errorf("to RPM %s is not before %s: %s, %v", a, b, out, err)
			}
		}
	}
	t.Log(versions)
}
