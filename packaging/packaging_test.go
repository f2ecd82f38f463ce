// Package packaging_test judges what the packages are made of, with the tools
// that would judge it on a host. It skips what the machine has no tool for.
package packaging_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"dcm/internal/linux/unitname"
)

// need skips a test that has no tool here.
func need(t *testing.T, tool string) {
	t.Helper()
	if _, err := exec.LookPath(tool); err != nil {
		t.Skipf("%s is not installed", tool)
	}
}

func read(t *testing.T, path string) string {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

func TestUnits_Exposure(t *testing.T) {
	need(t, "systemd-analyze")
	if help, _ := exec.Command("systemd-analyze", "--help").Output(); !strings.Contains(string(help), "--offline") {
		t.Skip("systemd-analyze cannot judge unit files offline: it is older than 250")
	}
	tests := []struct{ unit, tenths string }{
		{"dcm.service", "16"},
		{"dcm-apply.service", "39"},
		{"dcm-gate.service", "16"},
		{"dcm-change.service", "39"},
		{"dcm-make@.service", "39"},
		{"dcm-clean@.service", "16"},
		{"dcm-reserve.service", "16"},
		{"dcm-guard.service", "21"},
		{"dcm-agent.service", "16"},
	}
	for _, tt := range tests {
		t.Run(tt.unit, func(t *testing.T) {
			unit, err := filepath.Abs("../systemd/" + tt.unit)
			if err != nil {
				t.Fatal(err)
			}
			out, err := exec.Command("systemd-analyze", "security", "--no-pager", "--offline=true", "--threshold="+tt.tenths, unit).CombinedOutput()
			if err != nil {
				t.Errorf("%v with at most %s tenths allowed\n%s", err, tt.tenths, out)
			}
		})
	}
}

// The program is another one for this test, since dcm is not installed where the
// test runs.
func TestUnits_Verify(t *testing.T) {
	need(t, "systemd-analyze")
	dir := t.TempDir()
	var units []string
	for _, name := range append(unitname.All(), unitname.Slice) {
		text := strings.NewReplacer("/usr/libexec/dcm/dcm-service ", "/bin/true ", "/usr/libexec/dcm/dcm-guard ", "/bin/true ").Replace(read(t, "../systemd/"+name))
		unit := filepath.Join(dir, name)
		if err := os.WriteFile(unit, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
		units = append(units, unit)
	}
	out, err := exec.Command("systemd-analyze", append([]string{"verify", "--man=no"}, units...)...).CombinedOutput()
	// Units of this host may have mistakes of their own.
	if bad := regexp.MustCompile(`(?m)^.*dcm.*$`).FindAllString(string(out), -1); len(bad) > 0 {
		t.Errorf("%v\n%s", err, strings.Join(bad, "\n"))
	}
}

// The daemon delays its own retries, and an administrator may start a unit as often as
// necessary. With systemd's default limit the sixth start in ten seconds would fail.
func TestUnits_NoStartLimit(t *testing.T) {
	units, err := filepath.Glob("../systemd/*.service")
	if err != nil || len(units) < 4 {
		t.Fatalf("units are %q, %v", units, err)
	}
	for _, unit := range units {
		if !strings.Contains(read(t, unit), "\nStartLimitIntervalSec=0\n") {
			t.Errorf("%s has a limit of starts", unit)
		}
	}
}

func TestManual_NoWarnings(t *testing.T) {
	need(t, "man")
	pages, err := filepath.Glob("man/*.[1-8]")
	if err != nil || len(pages) == 0 {
		t.Fatalf("no pages: %v", err)
	}
	for _, page := range pages {
		if strings.HasPrefix(read(t, page), ".so ") {
			continue
		}
		cmd := exec.Command("man", "--warnings", "--local-file", page)
		cmd.Env = append(os.Environ(), "MANWIDTH=80", "LC_ALL=C.UTF-8", "MANPAGER=cat")
		var warnings strings.Builder
		cmd.Stderr = &warnings
		if err := cmd.Run(); err != nil || warnings.Len() > 0 {
			t.Errorf("%s: %v\n%s", page, err, &warnings)
		}
	}
}

// A DEB takes all pages there are; to rpm each has to be named.
func TestPackages_EveryPage(t *testing.T) {
	pages, err := filepath.Glob("man/*.[1-8]")
	if err != nil || len(pages) == 0 {
		t.Fatalf("no pages: %v", err)
	}
	recipe := read(t, "nfpm.yaml")
	for _, page := range pages {
		section := strings.TrimPrefix(filepath.Ext(page), ".")
		name := filepath.Base(page) + ".gz"
		if rpm := "/man/" + name + "\n    dst: /usr/share/man/man" + section + "/" + name + "\n    type: doc\n    packager: rpm\n"; !strings.Contains(recipe, rpm) {
			t.Errorf("the RPM lacks %s", page)
		}
		if deb := "/man/*." + section + ".gz\n    dst: /usr/share/man/man" + section + "/\n    packager: deb\n"; !strings.Contains(recipe, deb) {
			t.Errorf("the DEB lacks %s", page)
		}
	}
}

// What is linked in has to be named with its licence.
func TestCopyright_EveryModule(t *testing.T) {
	need(t, "go")
	cmd := exec.Command("go", "list", "-deps", "-f", "{{with .Module}}{{if not .Main}}{{.Path}}{{end}}{{end}}", "./cmd/dcm", "./cmd/dcm-service", "./cmd/dcm-smi", "./cmd/dcm-nvml", "./cmd/dcm-guard", "./cmd/dcm-host")
	cmd.Dir = ".."
	var stderr strings.Builder
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("%v\n%s", err, &stderr)
	}
	copyright := read(t, "copyright")
	major := regexp.MustCompile(`/v[0-9]+$`)
	for _, module := range strings.Fields(string(out)) {
		if name := major.ReplaceAllString(module, "") + "/*"; !strings.Contains(copyright, name) {
			t.Errorf("%s is linked in, and packaging/copyright has no %q", module, name)
		}
	}
}

// A client is stopped with dcm-apply.service while it is part of it. So every
// script that stops the oneshot reloads systemd without the generator first, and
// no other script touches it.
func TestScripts_StopOneshot(t *testing.T) {
	scripts, err := filepath.Glob("[dr][ep][bm]/p*")
	if err != nil || len(scripts) != 7 {
		t.Fatalf("scripts: %q, %v", scripts, err)
	}
	touches := regexp.MustCompile(`(re)?(start|stop)\S* .*dcm-apply\.service`)
	mask := regexp.MustCompile(`(?s)ln -sf /dev/null "\$mask".*if systemctl [^\n]*daemon-reload[^\n]*; then\n\s*\S+ stop dcm-apply\.service`)
	for _, script := range scripts {
		text := regexp.MustCompile(`(?m)^\s*#.*$`).ReplaceAllString(read(t, script), "")
		if found := touches.FindAllString(text, -1); len(found) > 0 && (len(found) != 1 || !mask.MatchString(text)) {
			t.Errorf("%s: %q", script, found)
		}
	}
}
