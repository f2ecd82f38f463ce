package importrules

import (
	"go/ast"
	"go/parser"
	"go/token"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// TestVendorNames looks for the names of vendors, their drivers and
// their modes among the identifiers of the packages that any vendor's GPUs go
// through. What users read is free.
func TestVendorNames(t *testing.T) {
	named := regexp.MustCompile(`(?i)amd|radeon|instinct|kfd|xgmi|nvidia|nvml|geforce|cuda|^smi|[^a-z]smi|NPS[0-9]|^(SPX|DPX|TPX|QPX|CPX)$|MIG([^ahr]|$)`)
	for _, pkg := range []string{"engine/apply", "engine/daemon", "engine/runstate", "frontends/status", "frontends/metrics", "frontends/supportbundle", "app/cli", "gpu"} {
		files, err := filepath.Glob(filepath.Join("..", "..", pkg, "*.go"))
		if err != nil || len(files) == 0 {
			t.Fatalf("no files of %s: %v", pkg, err)
		}
		for _, file := range files {
			if strings.HasSuffix(file, "_test.go") {
				continue
			}
			set := token.NewFileSet()
			parsed, err := parser.ParseFile(set, file, nil, 0)
			if err != nil {
				t.Fatal(err)
			}
			ast.Inspect(parsed, func(n ast.Node) bool {
				if ident, ok := n.(*ast.Ident); ok && named.MatchString(ident.Name) {
					t.Errorf("%s names %s", set.Position(ident.Pos()), ident.Name)
				}
				return true
			})
		}
	}
}
