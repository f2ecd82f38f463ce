package importrules

import (
	"go/ast"
	"go/parser"
	"go/token"
	"maps"
	"path"
	"path/filepath"
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

func TestACommandIsUsedByRootAlone(t *testing.T) {
	all := rooms(t, filepath.Join("..", "..", "app", "cli"))
	for from, targets := range uses(all) {
		for _, to := range targets {
			isCommand := slices.ContainsFunc(slices.Collect(maps.Keys(all[to].defines)), func(name string) bool { return strings.HasSuffix(name, "Cmd") })
			if isCommand && from != "root.go" {
				t.Errorf("%s uses %s, which has a command", from, to)
			}
		}
	}
}

func TestTheCommandLinesFilesUseEachOtherOneWay(t *testing.T) {
	if round := circle(uses(rooms(t, filepath.Join("..", "..", "app", "cli")))); round != nil {
		t.Errorf("these files of internal/app/cli use each other: %q", round)
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
