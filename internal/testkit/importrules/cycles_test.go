package importrules

import (
	"bytes"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// The files of a package refer to each other in one direction, so that they can be read in an order. cycles.tsv has
// the packages that do not do that yet, with the number of files in cycles. A number may only become smaller.
func TestFileCycles(t *testing.T) {
	var now bytes.Buffer
	for _, dir := range sourceDirectories(t) {
		if n := len(inCycles(references(t, dir))); n > 0 {
			fmt.Fprintf(&now, "%s\t%d\n", filepath.ToSlash(strings.TrimPrefix(dir, root+"/")), n)
		}
	}
	const list = "cycles.tsv"
	if os.Getenv("DCM_RECORD") != "" {
		if err := os.WriteFile(list, now.Bytes(), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	recorded, err := os.ReadFile(list)
	if err != nil {
		t.Fatal(err)
	}
	before, after := byPackage(t, recorded), byPackage(t, now.Bytes())
	for name, n := range after {
		if n > before[name] {
			t.Errorf("%s: %d files refer to each other in cycles, %d before: move what is shared to a file of its own", name, n, before[name])
		}
	}
	for name, n := range before {
		if after[name] < n {
			t.Errorf("%s: only %d files are in cycles now: write that to %s (DCM_RECORD=1 go test -run FileCycles)", name, after[name], list)
		}
	}
}

const root = "../../.."

func byPackage(t *testing.T, list []byte) map[string]int {
	t.Helper()
	out := make(map[string]int)
	for line := range bytes.Lines(list) {
		var name string
		var n int
		if _, err := fmt.Sscanf(string(line), "%s\t%d", &name, &n); err != nil {
			t.Fatalf("%q: %v", line, err)
		}
		out[name] = n
	}
	return out
}

// sourceDirectories returns the directories with Go files, those of the nested modules too.
func sourceDirectories(t *testing.T) (out []string) {
	t.Helper()
	for _, top := range []string{"cmd", "internal", "packaging"} {
		err := filepath.WalkDir(filepath.Join(root, top), func(path string, d fs.DirEntry, err error) error {
			switch {
			case err != nil:
				return err
			case d.Name() == "testdata":
				return filepath.SkipDir
			case d.IsDir():
				out = append(out, path)
			}
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	return out
}

// references returns the files of a package with the files that each refers to by the name of a function, type,
// variable or constant. Methods do not count: their type does. Tests are left out.
func references(t *testing.T, dir string) map[string][]string {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(dir, "*.go"))
	if err != nil {
		t.Fatal(err)
	}
	unresolved, declares := make(map[string][]string), make(map[string][]string)
	for _, file := range files {
		if strings.HasSuffix(file, "_test.go") {
			continue
		}
		// The parser resolves the names of one file. Names that are left are of other files, or built in.
		f, err := parser.ParseFile(token.NewFileSet(), file, nil, 0)
		if err != nil {
			t.Fatal(err)
		}
		for _, id := range f.Unresolved {
			unresolved[file] = append(unresolved[file], id.Name)
		}
		for _, d := range f.Decls {
			for _, name := range declared(d) {
				declares[name] = append(declares[name], file)
			}
		}
	}
	out := make(map[string][]string)
	for file, names := range unresolved {
		for _, name := range names {
			for _, other := range declares[name] { // one, or one for each system or architecture
				if other != file && !slices.Contains(out[file], other) {
					out[file] = append(out[file], other)
				}
			}
		}
	}
	return out
}

// declared returns the names at the level of the package.
func declared(d ast.Decl) (out []string) {
	switch d := d.(type) {
	case *ast.FuncDecl:
		if d.Recv == nil {
			out = append(out, d.Name.Name)
		}
	case *ast.GenDecl:
		for _, s := range d.Specs {
			switch s := s.(type) {
			case *ast.TypeSpec:
				out = append(out, s.Name.Name)
			case *ast.ValueSpec:
				for _, id := range s.Names {
					out = append(out, id.Name)
				}
			}
		}
	}
	return out
}

// inCycles returns the files from which references lead back to them.
func inCycles(to map[string][]string) (out []string) {
	for file := range to {
		seen := make(map[string]bool)
		next := slices.Clone(to[file])
		for len(next) > 0 {
			at := next[0]
			next = next[1:]
			if !seen[at] {
				seen[at] = true
				next = append(next, to[at]...)
			}
		}
		if seen[file] {
			out = append(out, file)
		}
	}
	return out
}

// A reference in both directions is found, also through a third file, and one in one direction is not.
func TestInCycles(t *testing.T) {
	got := inCycles(map[string][]string{"a": {"b"}, "b": {"c"}, "c": {"a"}, "d": {"a", "e"}})
	if slices.Sort(got); !slices.Equal(got, []string{"a", "b", "c"}) {
		t.Errorf("got %q, want a, b and c", got)
	}
}
