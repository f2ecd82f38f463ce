package importrules

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"path/filepath"
	"strings"
	"testing"
)

// Imports are grouped: the standard library, other modules, dcm. An empty line is between the groups.
func TestImportGroups(t *testing.T) {
	root := "../../.."
	err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.IsDir() && (d.Name() == "dist" || d.Name() == ".git" || d.Name() == "testdata"):
			return filepath.SkipDir
		case !strings.HasSuffix(path, ".go"):
			return nil
		}
		files := token.NewFileSet()
		f, err := parser.ParseFile(files, path, nil, parser.ImportsOnly)
		if err != nil {
			return err
		}
		for i, s := range f.Imports[min(1, len(f.Imports)):] {
			last := f.Imports[i]
			together := files.Position(s.Pos()).Line == files.Position(last.End()).Line+1
			if a, b := importGroup(last), importGroup(s); a > b || (a != b) == together {
				t.Errorf("%s: %s after %s: want the standard library, other modules and dcm in this order, with an empty line between them", files.Position(s.Pos()), s.Path.Value, last.Path.Value)
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}

func importGroup(s *ast.ImportSpec) int {
	switch first, _, _ := strings.Cut(strings.Trim(s.Path.Value, `"`), "/"); {
	case first == "dcm":
		return 2
	case strings.Contains(first, "."):
		return 1
	}
	return 0
}
