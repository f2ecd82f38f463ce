package surface

import (
	"encoding/json"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
)

func TestHelp(t *testing.T) {
	var b strings.Builder
	dcm := program(t, "dcm")
	for _, command := range commands(t, dcm, nil) {
		fmt.Fprintf(&b, "==> dcm %s\n%s\n", strings.Join(append(command, "--help"), " "), output(t, dcm, append(command, "--help")...))
	}
	Hold(t, "help.txt", b.String())
}

// program builds one of dcm's programs.
func program(t *testing.T, name string) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), name)
	build := exec.Command("go", "build", "-buildvcs=false", "-o", file, "./cmd/"+name)
	build.Dir = Root(t)
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	return file
}

func output(t *testing.T, program string, args ...string) string {
	t.Helper()
	out, err := exec.Command(program, args...).Output()
	if err != nil {
		t.Fatalf("%s %q: %v", program, args, err)
	}
	return string(out)
}

// commands returns a command and those below it, as their --help lists them. The shell
// completion is cobra's own.
func commands(t *testing.T, program string, parent []string) [][]string {
	t.Helper()
	all := [][]string{parent}
	help := output(t, program, append(slices.Clone(parent), "--help")...)
	_, list, _ := strings.Cut(help, "\nUsage:\n")
	for _, m := range regexp.MustCompile(`(?m)^  ([a-z][a-z-]*) +[A-Z]`).FindAllStringSubmatch(list, -1) {
		if m[1] != "completion" && m[1] != "help" {
			all = append(all, commands(t, program, append(slices.Clone(parent), m[1]))...)
		}
	}
	return all
}

// TestSettings finds every key and its accepted values by what `dcm check` prints about
// an unknown key and about a wrong value.
func TestSettings(t *testing.T) {
	dcm := program(t, "dcm")
	lines := make(map[string]bool)
	for _, table := range []string{"", "profiles.NAME", "profiles.NAME.group", "profiles.NAME.mig.0", "reservation", "leases.groups.NAME"} {
		settings(t, dcm, table, lines)
	}
	Hold(t, "settings.txt", strings.Join(slices.Sorted(maps.Keys(lines)), "\n")+"\n")
}

func settings(t *testing.T, dcm, table string, lines map[string]bool) {
	t.Helper()
	keys := accepted(check(t, dcm, table, "zz = 1"), "unknown key")
	for key := range strings.SplitSeq(keys, ", ") {
		if key == "" {
			continue
		}
		name := strings.TrimPrefix(table+"."+key, ".")
		if inner := accepted(check(t, dcm, name, "zz = 1"), "unknown key"); table == "" && inner != "" {
			settings(t, dcm, name, lines)
			continue
		}
		lines[name+": "+values(check(t, dcm, table, key+` = "?"`)+check(t, dcm, table, key+" = 1979-05-27"), key)] = true
	}
}

// check returns what `dcm check` prints about a file with one line in one table.
func check(t *testing.T, dcm, table, line string) string {
	t.Helper()
	header := ""
	switch table {
	case "":
	case "profiles.NAME.group", "reservation":
		header = "[[" + table + "]]\n"
	default:
		header = "[" + table + "]\n"
	}
	file := filepath.Join(t.TempDir(), "dcm.toml")
	if err := os.WriteFile(file, []byte(header+line+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	out, _ := exec.Command(dcm, "check", file, "--node", "mi300x-8").CombinedOutput() // fails, which is what is wanted
	return string(out)
}

// accepted returns what follows "accepted:" in the line about something.
func accepted(text, about string) string {
	if m := regexp.MustCompile(`(?m)` + about + `.*accepted: (.*)$`).FindStringSubmatch(text); m != nil {
		return m[1]
	}
	return ""
}

// values returns what a key accepts according to the errors about wrong values.
func values(text, key string) string {
	about := regexp.QuoteMeta(key) + ` = `
	if list := accepted(text, about); list != "" {
		return list
	}
	if m := regexp.MustCompile(`(?m)` + about + `.*: must be (.*?), not `).FindStringSubmatch(text); m != nil {
		return m[1]
	}
	return ""
}

// TestManual records the headings and the tagged terms of the manual pages.
func TestManual(t *testing.T) {
	var b strings.Builder
	for _, page := range files(t, "packaging/man") {
		fmt.Fprintf(&b, "==> %s\n", page.name)
		tagged := false
		for line := range strings.Lines(page.text) {
			line = strings.TrimSpace(line)
			switch {
			case strings.HasPrefix(line, ".SH "), strings.HasPrefix(line, ".SS "):
				b.WriteString(line + "\n")
			case tagged, strings.HasPrefix(line, ".B dcm "):
				b.WriteString("  " + strings.ReplaceAll(line, `\-`, "-") + "\n")
			}
			tagged = line == ".TP" || line == ".TQ"
		}
	}
	Hold(t, "manual.txt", b.String())
}

// TestUnits records the units, the policies and the events without their comments and
// explanations.
func TestUnits(t *testing.T) {
	var b strings.Builder
	for _, dir := range []string{"systemd", "packaging/dbus", "packaging/polkit", "packaging/sysusers"} {
		for _, file := range files(t, dir) {
			fmt.Fprintf(&b, "==> %s\n", file.name)
			text := regexp.MustCompile(`(?s)<!--.*?-->`).ReplaceAllString(file.text, "")
			for line := range strings.Lines(text) {
				line = strings.TrimSpace(line)
				catalog := strings.HasSuffix(file.name, ".catalog")
				if line == "" || line[0] == '#' || catalog && !strings.HasPrefix(line, "-- ") && !strings.HasPrefix(line, "Subject: ") {
					continue
				}
				b.WriteString("  " + line + "\n")
			}
		}
	}
	Hold(t, "units.txt", b.String())
}

// TestVarlink records the interface for agents without its comments.
func TestVarlink(t *testing.T) {
	found, err := filepath.Glob(filepath.Join(Root(t), "internal/*/*/*.varlink"))
	if err != nil || len(found) == 0 {
		t.Fatalf("no interface description found: %v", err)
	}
	var b strings.Builder
	for _, file := range found {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		fmt.Fprintf(&b, "==> %s\n", filepath.Base(file))
		for line := range strings.Lines(string(text)) {
			if line = strings.TrimRight(line, " \n"); line != "" && !strings.HasPrefix(strings.TrimSpace(line), "#") {
				b.WriteString(line + "\n")
			}
		}
	}
	Hold(t, "varlink.txt", b.String())
}

type file struct{ name, text string }

// files returns the files of a directory of the repository in order.
func files(t *testing.T, dir string) []file {
	t.Helper()
	entries, err := os.ReadDir(filepath.Join(Root(t), dir))
	if err != nil {
		t.Fatal(err)
	}
	var all []file
	for _, e := range entries {
		text, err := os.ReadFile(filepath.Join(Root(t), dir, e.Name()))
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, file{e.Name(), string(text)})
	}
	return all
}

// TestNames records names that the source chooses and that a run on one node need not
// show: the keys of all JSON documents and the fields of journal entries.
func TestNames(t *testing.T) {
	kinds := map[string]map[string]bool{"json": {}, "journal": {}}
	err := filepath.WalkDir(Root(t), func(path string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case path == Root(t):
			return nil
		case d.IsDir() && slices.Contains([]string{"e2e", "surface", "sim", "soak", "standin", "dist", "bin", ".git", "node_modules", "real"}, d.Name()):
			return filepath.SkipDir
		case d.IsDir(), !strings.HasSuffix(path, ".go"), strings.HasSuffix(path, "_test.go"):
			return nil
		}
		f, err := parser.ParseFile(token.NewFileSet(), path, nil, parser.SkipObjectResolution)
		if err != nil {
			return err
		}
		ast.Inspect(f, func(n ast.Node) bool {
			if lit, ok := n.(*ast.BasicLit); ok && lit.Kind == token.STRING {
				text, err := strconv.Unquote(lit.Value)
				if err != nil {
					t.Error(err)
				}
				names(kinds, text)
			}
			return true
		})
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	var b strings.Builder
	for _, kind := range slices.Sorted(maps.Keys(kinds)) {
		for _, name := range slices.Sorted(maps.Keys(kinds[kind])) {
			fmt.Fprintf(&b, "%s %s\n", kind, name)
		}
	}
	Hold(t, "names.txt", b.String())
}

func names(kinds map[string]map[string]bool, text string) {
	if name, _, _ := strings.Cut(reflect.StructTag(text).Get("json"), ","); name != "" && name != "-" {
		kinds["json"][name] = true
	}
	for _, name := range regexp.MustCompile(`\bDCM_[A-Z_]+\b`).FindAllString(text, -1) {
		kinds["journal"][name] = true
	}
}

func TestShape(t *testing.T) {
	var v any
	if err := json.Unmarshal([]byte(`{"b": [{"x": 1}, {"x": null, "y": "s"}], "a": {"0000:05:00.0": true, "0000:06:00.0": false}, "c": [], "d": {}}`), &v); err != nil {
		t.Fatal(err)
	}
	want := []string{".a.* boolean", ".b[].x null", ".b[].x number", ".b[].y string", ".c[]", ".d object"}
	if got := Shape(v); !slices.Equal(got, want) {
		t.Errorf("the shape is %q, want %q", got, want)
	}
}
