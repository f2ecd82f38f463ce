package wording

import (
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"unicode/utf8"
)

// root is the repository's directory.
const root = "../../.."

// write is the environment variable that makes TestWording lower the baseline.
const write = "DCM_WORDING_WRITE"

// TestWording compares the number of findings of each rule with the baseline, which may
// only shrink. `make wording` lowers it and lists what is left.
func TestWording(t *testing.T) {
	found := make(map[string][]finding)
	for _, file := range repositoryFiles(t) {
		for _, f := range check(t, file) {
			found[f.rule] = append(found[f.rule], f)
		}
	}
	baseline := readBaseline(t)
	for _, rule := range slices.Sorted(maps.Keys(found)) {
		limit, places := baseline[rule], found[rule]
		if len(places) > limit && os.Getenv(write) == "" {
			t.Errorf("%s: found %d times, want at most %d: write %q instead", rule, len(places), limit, words[rule])
		}
		for _, place := range places {
			if len(places) > limit || os.Getenv(write) != "" {
				t.Log(place)
			}
		}
	}
	if os.Getenv(write) != "" {
		writeBaseline(t, baseline, found)
	}
}

// repositoryFiles lists the texts that are checked, below the root. The golden files repeat
// texts of other files, and this package's sources contain the list itself.
func repositoryFiles(t *testing.T) []string {
	t.Helper()
	files := []string{"README.md", "Makefile", "install.sh"}
	for _, top := range []string{"cmd", "internal", "packaging", "systemd"} {
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

// A line of the baseline is a number and a rule.
func readBaseline(t *testing.T) map[string]int {
	t.Helper()
	text, err := os.ReadFile("baseline.txt")
	if err != nil && !os.IsNotExist(err) {
		t.Fatal(err)
	}
	baseline := make(map[string]int)
	for line := range strings.Lines(string(text)) {
		number, rule, _ := strings.Cut(strings.TrimSpace(line), " ")
		n, err := strconv.Atoi(number)
		if err != nil {
			t.Fatalf("baseline.txt: %v", err)
		}
		baseline[rule] = n
	}
	return baseline
}

// writeBaseline writes the numbers found. It refuses to raise one that is there.
func writeBaseline(t *testing.T, before map[string]int, found map[string][]finding) {
	t.Helper()
	var out strings.Builder
	for _, rule := range slices.Sorted(maps.Keys(found)) {
		n := len(found[rule])
		if len(before) > 0 && n > before[rule] {
			t.Errorf("%s: found %d times, want at most %d", rule, n, before[rule])
			n = before[rule]
		}
		fmt.Fprintf(&out, "%d %s\n", n, rule)
	}
	if err := os.WriteFile("baseline.txt", []byte(out.String()), 0o644); err != nil {
		t.Fatal(err)
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
