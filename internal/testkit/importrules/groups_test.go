package importrules

import (
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// groups are the folders below internal that hold packages, with the other groups that
// their packages may import. Packages directly below internal are small, import no group,
// and may be imported by all. Tests and the group testkit are free.
var groups = map[string][]string{
	"linux":     {},
	"worker":    {"linux"},
	"gpu":       {"linux", "worker"},
	"engine":    {"gpu", "linux"},
	"leases":    {"engine", "gpu", "linux"},
	"frontends": {"engine", "gpu", "leases", "linux"},
	"app":       {"engine", "frontends", "gpu", "leases", "linux"},
	"testkit":   {},
}

// groupOf returns the group of a package, or "" for one outside of the groups.
func groupOf(pkg string) string {
	name, _, _ := strings.Cut(strings.TrimPrefix(pkg, "internal/"), "/")
	if _, ok := groups[name]; ok && strings.HasPrefix(pkg, "internal/") {
		return name
	}
	return ""
}

func TestGroups_Imports(t *testing.T) {
	each(t, func(pkg, file string, test bool, path string) {
		inner, ok := strings.CutPrefix(path, "dcm/")
		from, to := groupOf(pkg), groupOf(inner)
		switch {
		case !ok || test || !strings.HasPrefix(pkg, "internal/") || from == "testkit" || to == "" || to == from:
		case from == "frontends" && to == "leases" && pkg != "internal/frontends/status/gather":
			t.Errorf("%s imports %s: only internal/frontends/status/gather may import leases", file, inner)
		case !slices.Contains(groups[from], to):
			t.Errorf("%s imports %s: group %q may import only groups %q", file, inner, from, groups[from])
		}
	})
}

// TestGroups_Documented: each group has a doc.go that states its purpose and what it must not import.
func TestGroups_Documented(t *testing.T) {
	for group := range groups {
		file := filepath.Join("..", "..", group, "doc.go")
		text, err := os.ReadFile(file)
		if err != nil {
			t.Errorf("group %s: %v", group, err)
			continue
		}
		if !strings.Contains(string(text), "must not import") {
			t.Errorf("%s does not state what the group must not import", file)
		}
	}
}

// TestPrintMap prints each package with its level and its imports, for `go test -v`. A
// package of level n imports only packages of lower levels.
func TestPrintMap(t *testing.T) {
	imports := make(map[string][]string)
	each(t, func(pkg, _ string, test bool, path string) {
		inner, ok := strings.CutPrefix(path, "dcm/")
		if ok && !test && inner != pkg && !slices.Contains(imports[pkg], inner) {
			imports[pkg] = append(imports[pkg], inner)
		}
	})
	byGroup := make(map[string][]string)
	for _, pkg := range slices.Sorted(maps.Keys(allowed)) {
		slices.Sort(imports[pkg])
		line := fmt.Sprintf("  level %2d  %s  %s", level(imports, pkg), pkg, strings.Join(imports[pkg], " "))
		byGroup[groupOf(pkg)] = append(byGroup[groupOf(pkg)], strings.ReplaceAll(line, "internal/", ""))
	}
	var out strings.Builder
	for _, group := range slices.Sorted(maps.Keys(byGroup)) {
		fmt.Fprintf(&out, "\n%s\n%s\n", group, strings.Join(byGroup[group], "\n"))
	}
	t.Log(out.String())
}

// level is 1 for a package that imports no package of dcm. Go allows no import cycle.
func level(imports map[string][]string, pkg string) int {
	n := 1
	for _, below := range imports[pkg] {
		n = max(n, level(imports, below)+1)
	}
	return n
}
