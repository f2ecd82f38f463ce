package importrules

import (
	"go/ast"
	"go/parser"
	"go/token"
	"maps"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// room is a file of one package, and what others name of it.
type room struct {
	defines map[string]bool
	names   []string // what it names and does not define
}

// rooms reads the files of a package, its tests apart.
func rooms(t *testing.T, dir string) map[string]room {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(dir, "*.go"))
	if err != nil || len(files) == 0 {
		t.Fatalf("no files in %s: %v", dir, err)
	}
	out := make(map[string]room)
	for _, file := range files {
		if strings.HasSuffix(file, "_test.go") {
			continue
		}
		// Names that the parser cannot resolve are of other files, other packages
		// or the language.
		parsed, err := parser.ParseFile(token.NewFileSet(), file, nil, 0)
		if err != nil {
			t.Fatal(err)
		}
		r := room{defines: make(map[string]bool)}
		for name := range parsed.Scope.Objects {
			r.defines[name] = true
		}
		for _, ident := range parsed.Unresolved {
			if !imported(parsed, ident.Name) {
				r.names = append(r.names, ident.Name)
			}
		}
		out[filepath.Base(file)] = r
	}
	return out
}

func imported(file *ast.File, name string) bool {
	return slices.ContainsFunc(file.Imports, func(i *ast.ImportSpec) bool {
		return i.Name != nil && i.Name.Name == name || i.Name == nil && path.Base(strings.Trim(i.Path.Value, `"`)) == name
	})
}

// uses are the files that each file names something of.
func uses(rooms map[string]room) map[string][]string {
	out := make(map[string][]string)
	for from, r := range rooms {
		for to, other := range rooms {
			if from != to && slices.ContainsFunc(r.names, func(name string) bool { return other.defines[name] }) {
				out[from] = append(out[from], to)
			}
		}
		slices.Sort(out[from])
	}
	return out
}

// cliPackages returns the folders of the command line.
func cliPackages(t *testing.T) []string {
	t.Helper()
	top := filepath.Join("..", "..", "app", "cli")
	out := []string{top}
	entries, err := os.ReadDir(top)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		if e.IsDir() && e.Name() != "testdata" {
			out = append(out, filepath.Join(top, e.Name()))
		}
	}
	return out
}

func TestCommand_UsedByRootOnly(t *testing.T) {
	command := regexp.MustCompile(`\b\w+Cmd\(`)
	for _, dir := range cliPackages(t) {
		files, err := filepath.Glob(filepath.Join(dir, "*.go"))
		if err != nil {
			t.Fatal(err)
		}
		for _, file := range files {
			text, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			if base := filepath.Base(file); base == "root.go" || base == "groups.go" || strings.HasSuffix(file, "_test.go") {
				continue
			}
			for line := range strings.Lines(string(text)) {
				if name := command.FindString(line); name != "" && !strings.HasPrefix(line, "func "+name) {
					t.Errorf("%s uses a command: %s", file, strings.TrimSpace(line))
				}
			}
		}
	}
}

func TestCommandFiles_OneDirection(t *testing.T) {
	for _, dir := range cliPackages(t) {
		if round := circle(uses(rooms(t, dir))); round != nil {
			t.Errorf("these files of %s use each other: %q", dir, round)
		}
	}
}

// circle takes away what uses nothing that is left, until nothing more goes.
func circle(uses map[string][]string) []string {
	left := slices.Sorted(maps.Keys(uses))
	for {
		n := len(left)
		left = slices.DeleteFunc(left, func(file string) bool {
			return !slices.ContainsFunc(uses[file], func(to string) bool { return slices.Contains(left, to) })
		})
		if len(left) == 0 {
			return nil
		}
		if len(left) == n {
			return left
		}
	}
}
