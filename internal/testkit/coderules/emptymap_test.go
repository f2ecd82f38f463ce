package coderules

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"path/filepath"
	"strings"
	"testing"
)

// A function that returns a map and no error returns a map that its callers can write to, also if a file or
// directory does not exist yet: on a fresh installation the first write to a nil map would panic.
func TestReturnedMaps_Writable(t *testing.T) {
	found := 0
	for _, top := range []string{"../..", "../../../cmd"} {
		err := filepath.WalkDir(top, func(path string, e fs.DirEntry, err error) error {
			if err != nil || e.IsDir() || !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") {
				return err
			}
			files := token.NewFileSet()
			parsed, err := parser.ParseFile(files, path, nil, 0)
			if err != nil {
				return err
			}
			for _, d := range parsed.Decls {
				f, ok := d.(*ast.FuncDecl)
				if !ok || f.Body == nil || !returnsMapAndError(f.Type.Results) {
					continue
				}
				found++
				for _, r := range returns(f.Body) {
					if len(r.Results) == 2 && isNil(r.Results[0]) && isNil(r.Results[1]) {
						t.Errorf("%s: %s returns a nil map without an error, want an empty map", files.Position(r.Pos()), f.Name.Name)
					}
				}
			}
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	if found < 20 {
		t.Errorf("functions that return a map and an error: found %d, want at least 20", found)
	}
}

func returnsMapAndError(results *ast.FieldList) bool {
	if results == nil || len(results.List) != 2 || len(results.List[0].Names) > 1 {
		return false
	}
	_, isMap := results.List[0].Type.(*ast.MapType)
	last, isName := results.List[1].Type.(*ast.Ident)
	return isMap && isName && last.Name == "error"
}

// returns returns the return statements of a function, without those of functions in it.
func returns(body *ast.BlockStmt) []*ast.ReturnStmt {
	var out []*ast.ReturnStmt
	ast.Inspect(body, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.FuncLit:
			return false
		case *ast.ReturnStmt:
			out = append(out, n)
		}
		return true
	})
	return out
}

func isNil(e ast.Expr) bool {
	name, ok := e.(*ast.Ident)
	return ok && name.Name == "nil"
}
