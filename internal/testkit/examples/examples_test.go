package examples

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	gocmp "github.com/google/go-cmp/cmp"
)

const root = "../../.."

func documents(t *testing.T) []Example {
	t.Helper()
	all, err := Documents(root)
	if err != nil {
		t.Fatal(err)
	}
	return all
}

// TestDocuments: each example is of a known kind. With -v the test prints those that no test runs, those that another test
// runs, and the number of each kind.
func TestDocuments(t *testing.T) {
	n := make(map[string]int)
	for _, e := range documents(t) {
		commands, err := e.Commands()
		if err != nil && !e.Inline {
			t.Error(err)
		}
		switch {
		case e.Kind == Unknown:
			t.Errorf("%s: cannot recognise the example, want a mark such as \"output\":\n%s", e, e.Text)
		case e.Inline:
			n[string(e.Kind)+" in sentences"]++
		case e.Mark.NotRun != "":
			n["not run: blocks"]++
			n["not run: commands"] += len(commands)
			t.Logf("%s: not run: %s", e, e.Mark.NotRun)
		case e.Mark.RunBy != "":
			n["run by another test: blocks"]++
			n["run by another test: commands"] += len(commands)
			t.Logf("%s: run by %s", e, e.Mark.RunBy)
		default:
			n[string(e.Kind)+": blocks"]++
			n[string(e.Kind)+": commands"] += len(commands)
		}
	}
	for _, what := range slices.Sorted(func(yield func(string) bool) {
		for k := range n {
			if n[k] > 0 && !yield(k) {
				return
			}
		}
	}) {
		t.Logf("%4d %s", n[what], what)
	}
}

// TestDocuments_NamesExist: the tests, targets and options of this repository that the documents name exist.
func TestDocuments_NamesExist(t *testing.T) {
	source := sources(t)
	makefile, install := read(t, "Makefile"), read(t, "install.sh")
	n := 0
	for _, e := range documents(t) {
		if e.Mark.RunBy != "" {
			name, _, _ := strings.Cut(e.Mark.RunBy, ":")
			n++
			testExists(t, e, source, name)
		}
		if e.Kind == Tests {
			for name := range strings.FieldsFuncSeq(e.Text, func(r rune) bool { return strings.ContainsRune(", \n", r) }) {
				if strings.HasPrefix(name, "Test") {
					n++
					testExists(t, e, source, name)
				}
			}
		}
		commands, err := e.Commands()
		if err != nil {
			continue // TestDocuments reports it
		}
		for _, c := range commands {
			calls, err := c.Calls()
			if err != nil {
				t.Fatal(err)
			}
			for _, words := range calls {
				n++
				switch {
				case words[0] == "make" && len(words) > 1:
					target, _, _ := strings.Cut(words[1], "=")
					if !regexp.MustCompile(`(?m)^(\.PHONY:.* )?`+regexp.QuoteMeta(target)+`( |:|$)`).MatchString(makefile) && !strings.Contains(makefile, " "+target+" ") {
						t.Errorf("%s: make %s: no such target", e, words[1])
					}
				case strings.HasPrefix(words[0], "Test"):
					testExists(t, e, source, words[0])
				case words[0] == "go" && words[1] == "test":
					goTestExists(t, e, source, words[2:])
				case strings.HasSuffix(words[0], "install.sh"):
					for _, w := range words[1:] {
						if !strings.Contains(install, w) {
							t.Errorf("%s: install.sh has no option %s", e, w)
						}
					}
				default:
					n--
				}
			}
		}
	}
	t.Logf("%d names", n)
}

// goTestExists checks that the directories and the tests of a go test command exist.
func goTestExists(t *testing.T, e Example, source map[string]string, words []string) {
	t.Helper()
	for i, w := range words {
		if dir, ok := strings.CutPrefix(w, "./"); ok {
			if _, err := os.Stat(filepath.Join(root, strings.TrimSuffix(dir, "..."))); err != nil {
				t.Errorf("%s: %v", e, err)
			}
		}
		if w == "-run" || w == "-fuzz" {
			testExists(t, e, source, words[i+1])
		}
	}
}

// testExists checks a name of a test, with the name of a subtest after a slash.
func testExists(t *testing.T, e Example, source map[string]string, name string) {
	t.Helper()
	top, sub, _ := strings.Cut(strings.Trim(name, "^$"), "/")
	for _, text := range source {
		if strings.Contains(text, "\nfunc "+top+"(") && (sub == "" || strings.Contains(text, `"`+sub+`"`)) {
			return
		}
	}
	t.Errorf("%s: no test %s", e, name)
}

// sources returns the test files by their paths.
func sources(t *testing.T) map[string]string {
	t.Helper()
	out := make(map[string]string)
	for _, dir := range []string{"internal", "cmd", "packaging"} {
		err := filepath.WalkDir(filepath.Join(root, dir), func(path string, _ os.DirEntry, err error) error {
			if err == nil && strings.HasSuffix(path, "_test.go") {
				var text []byte
				text, err = os.ReadFile(path)
				out[path] = string(text)
			}
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	return out
}

func read(t *testing.T, name string) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(root, name))
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// TestDocuments_Tools checks the examples for other programs with these programs.
func TestDocuments_Tools(t *testing.T) {
	for _, c := range []struct {
		kind Kind
		file string // name for the tool
		tool []string
		wrap func(string) string
	}{
		{Rules, "rules.yml", []string{"promtool", "check", "rules", "--lint=all", "--lint-fatal"}, nil},
		{UnitFile, "example.service", []string{"systemd-analyze", "verify", "--man=no", "--recursive-errors=no"}, service},
		{JavaScript, "rules.js", []string{"node"}, polkit},
	} {
		t.Run(string(c.kind), func(t *testing.T) {
			if _, err := exec.LookPath(c.tool[0]); err != nil {
				t.Skipf("skipped: %s is not installed", c.tool[0])
			}
			n := 0
			for _, e := range documents(t) {
				if e.Kind != c.kind || e.Mark.RunBy != "" {
					continue
				}
				n++
				text := e.Text
				if c.wrap != nil {
					text = c.wrap(text)
				}
				file := filepath.Join(t.TempDir(), c.file)
				if err := os.WriteFile(file, []byte(text), 0o644); err != nil {
					t.Fatal(err)
				}
				if out, err := exec.CommandContext(t.Context(), c.tool[0], append(c.tool[1:], file)...).CombinedOutput(); err != nil {
					t.Errorf("%s: %s: %v\n%s", e, strings.Join(c.tool, " "), err, out)
				}
			}
			t.Logf("%d checked with %s", n, c.tool[0])
			if n == 0 {
				t.Error("no example found")
			}
		})
	}
}

// service makes a drop-in a unit, and replaces the administrator's programs.
func service(text string) string {
	text = strings.ReplaceAll(text, "/usr/local/sbin/drain-node", "/bin/true")
	text = strings.ReplaceAll(text, "/usr/local/sbin/undrain-node", "/bin/true")
	if !strings.Contains(text, "ExecStart=") {
		text += "\n[Service]\nType=oneshot\nExecStart=/bin/true\n"
	}
	return text
}

// polkit runs rules of polkit with the objects that they use, and checks which of the actions they permit.
func polkit(rules string) string {
	return `const polkit = {Result: {YES: "yes", NOT_HANDLED: "none"}, addRule(rule) {
    const ask = (id, profile, group) => rule({id, lookup: key => key == "profile" ? profile : undefined}, {isInGroup: g => g == group});
    const got = [ask("org.deviceconfig.dcm.apply", "", "gpu-operators"), ask("org.deviceconfig.dcm.use", "cpx-nps4", "gpu-operators"),
        ask("org.deviceconfig.dcm.use", "other", "gpu-operators"), ask("org.deviceconfig.dcm.apply", "", "users")].join();
    if (got != "yes,yes,none,none") throw new Error("got " + got);
}};
` + rules
}

func TestManual(t *testing.T) {
	const page = `.TH X 1
.SH ONE
.\" example: section node h100\-8
.SS Two
Text with
.BR "dcm status \-\-long" ,
and
.B dcm
and
.RB ( "systemctl reload dcm" ).
.PP
.RS 4
.\" example: exits 75
.nf
$ dcm verify x
No.
.\" example: exits 2
$ sudo dcm plan x | cat
.fi
.RE
.PP
.EX
[agent]
enabled = true
.EE
.SH THREE
.\" example: output
.nf
.RS 4
A  B
.RE
.fi
`
	got, err := Manual("x.1", page)
	if err != nil {
		t.Fatal(err)
	}
	want := []Example{
		{File: "x.1", Line: 6, Section: "ONE/Two", Text: "dcm status --long", Inline: true, Kind: Script},
		{File: "x.1", Line: 10, Section: "ONE/Two", Text: "systemctl reload dcm", Inline: true, Kind: Script},
		{File: "x.1", Line: 15, Section: "ONE/Two", Text: "$ dcm verify x\nNo.\n$ sudo dcm plan x | cat", Kind: Session, Mark: Mark{Exits: []Exit{{75, ""}, {2, "dcm plan x | cat"}}}},
		{File: "x.1", Line: 23, Section: "ONE/Two", Text: "[agent]\nenabled = true", Kind: Config},
		{File: "x.1", Line: 29, Section: "THREE", Text: "A  B", Kind: Output, Mark: Mark{Output: true}},
	}
	if diff := gocmp.Diff(want, got); diff != "" {
		t.Errorf("examples (-want +got):\n%s", diff)
	}
}

func TestMarkdown(t *testing.T) {
	const text = "# One\n\nRun `dcm status --long` or `dcm`:\n\n<!-- example: not run: needs a GPU -->\n\n    dcm plan x\n      --json\n\n    # twice\n\n" +
		"1. Text\n\n   ```toml\n   profile = \"x\"\n   ```\n\n## Two\n\n<!-- example: section run by TestX -->\n\n    kubectl a <<END\n    b\n    END\n    kubectl c   # d\n"
	got, err := Markdown("x.md", text)
	if err != nil {
		t.Fatal(err)
	}
	want := []Example{
		{File: "x.md", Line: 3, Section: "One", Text: "dcm status --long", Inline: true, Kind: Script},
		{File: "x.md", Line: 7, Section: "One", Text: "dcm plan x\n  --json\n\n# twice", Kind: Script, Mark: Mark{NotRun: "needs a GPU"}},
		{File: "x.md", Line: 15, Section: "One", Text: "profile = \"x\"", Kind: Config},
		{File: "x.md", Line: 22, Section: "Two", Text: "kubectl a <<END\nb\nEND\nkubectl c   # d", Kind: Script, Mark: Mark{RunBy: "TestX"}},
	}
	if diff := gocmp.Diff(want, got); diff != "" {
		t.Errorf("examples (-want +got):\n%s", diff)
	}
	commands, err := got[3].Commands()
	if diff := gocmp.Diff([]Command{{Line: 22, Text: "kubectl a <<END\nb\nEND"}, {Line: 25, Text: "kubectl c   # d"}}, commands); err != nil || diff != "" {
		t.Errorf("commands: %v (-want +got):\n%s", err, diff)
	}
}

func TestMark_Unknown(t *testing.T) {
	for _, mark := range []string{"exit 1", "exits x", "exits 0", "node", "not run"} {
		if _, err := Manual("x.1", `.\" example: `+mark+"\n.nf\ndcm status\n.fi\n"); err == nil || !strings.Contains(err.Error(), "x.1:2: ") {
			t.Errorf("mark %q: got %v, want an error with file and line", mark, err)
		}
	}
}

func TestSession_Commands(t *testing.T) {
	e := Example{File: "x", Line: 10, Kind: Session, Text: "$ cd /etc\n$ dcm import a \\\n    b | sudo tee c\noutput\n$ tee x <<'EOF'\na b\nEOF\n$ sudo DCM_X=1 dcm use x # y"}
	got, err := e.Commands()
	if err != nil {
		t.Fatal(err)
	}
	want := []Command{{10, "cd /etc", ""}, {11, "dcm import a \\\n    b | sudo tee c", "output\n"}, {14, "tee x <<'EOF'\na b\nEOF", ""}, {17, "sudo DCM_X=1 dcm use x # y", ""}}
	if diff := gocmp.Diff(want, got); diff != "" {
		t.Errorf("commands (-want +got):\n%s", diff)
	}
	var calls []string
	for _, c := range got {
		words, err := c.Calls()
		if err != nil {
			t.Fatal(err)
		}
		calls = append(calls, fmt.Sprint(words))
	}
	if diff := gocmp.Diff([]string{"[[cd /etc]]", "[[dcm import a b] [tee c]]", "[[tee x]]", "[[dcm use x]]"}, calls); diff != "" {
		t.Errorf("calls (-want +got):\n%s", diff)
	}
}
