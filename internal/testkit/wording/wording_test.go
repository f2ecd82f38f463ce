package wording

import (
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"
)

// root is the repository's directory.
const root = "../../.."

// TestWording checks every text of the repository.
func TestWording(t *testing.T) {
	for _, file := range repositoryFiles(t) {
		for _, f := range check(t, file) {
			if instead := words[f.rule]; instead != "" {
				t.Errorf("%s; write: %s", f, instead)
			} else {
				t.Error(f)
			}
		}
	}
}

// repositoryFiles lists the texts that are checked, below the root. The golden files repeat
// texts of other files, and this package's sources contain the list itself.
func repositoryFiles(t *testing.T) []string {
	t.Helper()
	files := []string{"README.md", "CHANGELOG.md", "HACKING.md", "Makefile", "install.sh"}
	for _, top := range []string{"cmd", "findings", "internal", "packaging", "systemd"} {
		err := filepath.WalkDir(filepath.Join(root, top), func(path string, entry fs.DirEntry, err error) error {
			switch {
			case err != nil:
				return err
			case entry.IsDir() && slices.Contains([]string{"golden", "testdata", "wording", "node_modules"}, entry.Name()):
				return fs.SkipDir
			case entry.Type().IsRegular() && entry.Name() != "go.sum" && entry.Name() != "copyright":
				file, err := filepath.Rel(root, path)
				files = append(files, file)
				return err
			}
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	return files
}

func check(t *testing.T, file string) []finding {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(root, file))
	if err != nil {
		t.Fatal(err)
	}
	switch {
	case !utf8.Valid(text):
		return nil // a program or an image
	case strings.HasSuffix(file, ".go"):
		found, err := checkGo(file, text)
		if err != nil {
			t.Fatal(err)
		}
		return found
	case strings.HasPrefix(file, "packaging/man/"):
		return checkManual(file, string(text))
	}
	return checkWords(file, 1, string(text))
}

// TestOldCommands: no message, help or manual page has an old name of a command, except the table of dcm(1).
func TestOldCommands(t *testing.T) {
	page, err := os.ReadFile(filepath.Join(root, "packaging/man/dcm.1"))
	if err != nil {
		t.Fatal(err)
	}
	names := oldNames(string(page))
	if !slices.Contains(names, "dcm slurm-conf") || !slices.Contains(names, "dcm report --list") {
		t.Fatalf("the table of dcm(1) has only the old names %q", names)
	}
	old := oldPattern(names)
	for _, file := range repositoryFiles(t) {
		if strings.HasSuffix(file, "_test.go") || strings.HasPrefix(file, "internal/testkit/e2e/") {
			continue // they call old names too
		}
		text, err := os.ReadFile(filepath.Join(root, file))
		if err != nil {
			t.Fatal(err)
		}
		if !utf8.Valid(text) {
			continue
		}
		for _, f := range checkOldCommands(file, string(text), old) {
			t.Error(f)
		}
	}
}

func TestCheckOldCommands(t *testing.T) {
	old := oldPattern(oldNames("x\nold;new\ndcm leases;dcm lease list\ndcm report \\-\\-bundle [FILE];dcm support bundle [FILE]\n.TE\ndcm x;dcm y\n"))
	for text, want := range map[string]int{
		"see 'dcm leases'": 1, ".B dcm report \\-\\-bundle": 1, "dcm report": 0, "dcm lease list": 0, "old;new\ndcm leases;x\n.TE\ndcm leases": 1, "dcm-leases": 0,
	} {
		if found := checkOldCommands("file", text, old); len(found) != want {
			t.Errorf("%q: found %v, want %d", text, found, want)
		}
	}
}

func TestCheckWords(t *testing.T) {
	for text, want := range map[string][]string{
		"The daemon reports it.":             nil,
		"The user is Told, and told\nagain.": {"told", "told"},
		"All at\nonce":                       {"at once"},
		"Runs as the user nobody.":           nil,
		"nobody has it":                      {"nobody"},
		"The untold behindhand":              nil,
	} {
		var got []string
		for _, f := range checkWords("f", 1, text) {
			got = append(got, f.rule)
		}
		if !slices.Equal(got, want) {
			t.Errorf("%q: got %q, want %q", text, got, want)
		}
	}
}

func TestCheckGo(t *testing.T) {
	long := strings.Repeat("word ", maxWords) + "word."
	source := "package p\n\nimport \"time\"\n\n// Nobody is\n// told.\nconst retry = 5 * time.Second\nconst retryDelay = 5 * time.Second\n\nvar s = \"Short. \" +\n\t\"" + long + "\"\n"
	found, err := checkGo("internal/p/p.go", []byte(source))
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, f := range found {
		got = append(got, fmt.Sprintf("%d %s", f.line, f.rule))
	}
	want := []string{"5 nobody", "6 told", "7 duration name", "10 long sentence"}
	if !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
}

func TestCheckHints(t *testing.T) {
	for code, want := range map[string]int{
		`var e = Error{Text: "No.", Hint: "see the log"}`:                 0,
		`var e = Error{Hint: "See the log"}`:                              1,
		`var e = Error{hint: "see the log."}`:                             1,
		`var e = Error{Hint: "load it with modprobe " + name + "."}`:      1,
		`const logHint = "DCGM holds it: end it"`:                         0,
		`const logHint = "End it"`:                                        1,
		`func (e *E) Hint() string { return "Reboot it" }`:                1,
		`func (e *E) Text() string { return "Reboot it." }`:               0,
		`var e = errors.New("x: not found\nhint: Look at " + file)`:       1,
		`var e = errors.New("x: not found\nhint: 'dcm gpus' lists them")`: 0,
	} {
		found, err := checkGo("internal/x/x.go", []byte("package x\n"+code))
		if err != nil {
			t.Fatal(err)
		}
		n := 0
		for _, f := range found {
			if f.rule == hintForm {
				n++
			}
		}
		if n != want {
			t.Errorf("%s: %v, want %d", code, found, want)
		}
	}
}

func TestCheckManual(t *testing.T) {
	long := strings.Repeat("word ", maxWords-1)
	text := ".SH NAME\n" + long + "\n.B bold\nand more.\n.PP\n" + long + ".\n.EX\n" + long + long + "\n.EE\n"
	found := checkManual("packaging/man/x.1", text)
	if len(found) != 1 || found[0].line != 2 || found[0].rule != longSentence {
		t.Errorf("got %v, want one long sentence in line 2", found)
	}
}

func TestCheckManual_TagsTablesAndMacros(t *testing.T) {
	long := strings.TrimSpace(strings.Repeat("word ", maxWords))
	text := ".TP\n.B " + long + " tag\nShort.\n.TS\n" + long + " row\n.TE\n.PP\n" + long + "\n.BR one \" \" two\n.PP\n" + strings.TrimSuffix(long, " word") + "\n.BR manual (1).\n"
	found := checkManual("packaging/man/x.1", text)
	if len(found) != 1 || found[0].line != 8 || found[0].rule != longSentence {
		t.Errorf("got %v, want one long sentence in line 8", found)
	}
}
