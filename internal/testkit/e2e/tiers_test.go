package e2e_test

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"dcm/internal/testkit/e2e"
)

// tierVariable names the tier to run. Without it every test runs.
const tierVariable = "DCM_TIER"

// groups are the groups of tiers.tsv.
var groups = sync.OnceValues(e2e.Groups)

// reason returns the reason why a group does not run; "" if it runs.
func reason(g e2e.Group) string {
	if tier := os.Getenv(tierVariable); tier == "" || tier == string(e2e.BeforeRelease) || g.Tier == e2e.EachCommit {
		return ""
	}
	return "runs in make " + string(g.Tier) + ": " + g.Reason
}

// inTier skips the test if it is in another tier.
func inTier(t *testing.T) {
	t.Helper()
	all, err := groups()
	if err != nil {
		t.Fatal(err)
	}
	g, ok := e2e.GroupOf(all, t.Name())
	if !ok {
		t.Fatalf("%s is in no tier: add it to tiers.tsv", t.Name())
	}
	if why := reason(g); why != "" {
		t.Skip(why)
	}
}

// bootsInTier skips a test that boots a container if neither it nor one of its rows is in the tier. It returns the
// length in seconds.
func bootsInTier(t *testing.T) (length int) {
	t.Helper()
	all, err := groups()
	if err != nil {
		t.Fatal(err)
	}
	g, ok := e2e.GroupOf(all, t.Name())
	if !ok {
		t.Fatalf("%s boots a container and is in no tier: add it to tiers.tsv", t.Name())
	}
	if why := reason(g); why != "" && !e2e.Boots(all, t.Name()) {
		t.Skip(why)
	}
	if last, ok := lastTimes()[t.Name()]; ok {
		return last
	}
	return g.Seconds
}

// times is the file with the seconds of the last run of each group, in which a later run replaces an earlier one.
func times() string { return filepath.Join(e2e.CacheDir(), "times"+os.Getenv(tierVariable)+".tsv") }

var lastTimes = sync.OnceValue(func() map[string]int {
	text, _ := os.ReadFile(times()) // without it the list has the lengths
	last := make(map[string]int)
	for line := range strings.Lines(string(text)) {
		name, seconds, _ := strings.Cut(strings.TrimSpace(line), "\t")
		last[name], _ = strconv.Atoi(seconds)
	}
	return last
})

var writingTimes sync.Mutex

// timed logs the time of a test from the boot of its container, and keeps it for the next run if the test passes.
func timed(t *testing.T) {
	began := time.Now()
	t.Cleanup(func() {
		seconds := int(time.Since(began).Seconds())
		t.Logf("from the boot of its container: %d s", seconds)
		if t.Failed() {
			return
		}
		writingTimes.Lock()
		defer writingTimes.Unlock()
		f, err := os.OpenFile(times(), os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o644)
		if err != nil {
			t.Errorf("cannot keep the time: %v", err)
			return
		}
		defer f.Close()
		fmt.Fprintf(f, "%s\t%d\n", t.Name(), seconds)
	})
}

// Every test with containers is in the list, and the list has no other test. The test of a container fails when it
// runs if it is in no tier.
func TestTiers(t *testing.T) {
	all, err := groups()
	if err != nil {
		t.Fatal(err)
	}
	want := make(map[string]bool)
	for _, dir := range []string{".", "vm"} {
		for name, body := range testFunctions(t, dir) {
			if dir == "vm" && name != "TestVM" && name != "TestSoak" {
				continue
			}
			if dir == "vm" || calls(body, "requireContainers") || calls(body, "boot") {
				want[name] = true
			}
		}
	}
	node := testFunctions(t, ".")["TestNode"]
	delete(want, "TestNode")
	ast.Inspect(node, func(n ast.Node) bool {
		if call, ok := n.(*ast.CallExpr); ok && len(call.Args) == 2 {
			if name, ok := call.Args[0].(*ast.BasicLit); ok && name.Kind == token.STRING {
				text, _ := strconv.Unquote(name.Value)
				want["TestNode/"+strings.ReplaceAll(text, " ", "_")] = true
			}
		}
		return true
	})
	got := make(map[string]bool)
	for name := range all {
		part := strings.SplitN(name, "/", 3)
		if part[0] == "TestNode" {
			got[strings.Join(part[:2], "/")] = true
		} else {
			got[part[0]] = true
		}
	}
	for _, name := range slices.Sorted(maps.Keys(want)) {
		if !got[name] {
			t.Errorf("%s is in no tier: add it to tiers.tsv", name)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(got)) {
		if !want[name] {
			t.Errorf("tiers.tsv lists %s, which is no test", name)
		}
	}
}

// Each part of a name in the list is written in a test. A row with a wrong name would leave the tier of each commit
// without a failure.
func TestTiers_RowsExist(t *testing.T) {
	all, err := groups()
	if err != nil {
		t.Fatal(err)
	}
	written := partsOfNames(t)
	for _, name := range slices.Sorted(maps.Keys(all)) {
		for _, part := range strings.Split(name, "/")[1:] {
			if !written[part] {
				t.Errorf("tiers.tsv lists %s, and no test has the name %q", name, part)
			}
		}
	}
}

// partsOfNames returns the string literals of this package and its tests as package testing writes them in names of
// tests, split at slashes.
func partsOfNames(t *testing.T) map[string]bool {
	t.Helper()
	files, err := filepath.Glob("*.go")
	if err != nil || len(files) == 0 {
		t.Fatalf("files of this package: %q, %v", files, err)
	}
	out := make(map[string]bool)
	for _, file := range files {
		parsed, err := parser.ParseFile(token.NewFileSet(), file, nil, 0)
		if err != nil {
			t.Fatal(err)
		}
		ast.Inspect(parsed, func(n ast.Node) bool {
			if l, ok := n.(*ast.BasicLit); ok && l.Kind == token.STRING {
				text, _ := strconv.Unquote(l.Value)
				for part := range strings.SplitSeq(text, "/") {
					out[strings.ReplaceAll(part, " ", "_")] = true
				}
			}
			return true
		})
	}
	return out
}

// testFunctions returns the test functions of a directory by name.
func testFunctions(t *testing.T, dir string) map[string]*ast.BlockStmt {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(dir, "*_test.go"))
	if err != nil || len(files) == 0 {
		t.Fatalf("test files in %s: %q, %v", dir, files, err)
	}
	out := make(map[string]*ast.BlockStmt)
	for _, file := range files {
		parsed, err := parser.ParseFile(token.NewFileSet(), file, nil, 0)
		if err != nil {
			t.Fatal(err)
		}
		for _, d := range parsed.Decls {
			if f, ok := d.(*ast.FuncDecl); ok && f.Recv == nil && strings.HasPrefix(f.Name.Name, "Test") {
				out[f.Name.Name] = f.Body
			}
		}
	}
	return out
}

// calls reports whether a function of that name is called.
func calls(body *ast.BlockStmt, name string) (found bool) {
	ast.Inspect(body, func(n ast.Node) bool {
		if call, ok := n.(*ast.CallExpr); ok {
			if f, ok := call.Fun.(*ast.Ident); ok && f.Name == name {
				found = true
			}
		}
		return true
	})
	return found
}

func TestGroupOf_NearestTest(t *testing.T) {
	all := map[string]e2e.Group{
		"TestNode/a/x":     {Test: "TestNode/a/x", Tier: e2e.BeforeRelease},
		"TestNode/a/x/row": {Test: "TestNode/a/x/row", Tier: e2e.EachCommit},
		"TestNode/b":       {Test: "TestNode/b", Tier: e2e.BeforeRelease},
	}
	for test, want := range map[string]string{
		"TestNode/a/x": "TestNode/a/x", "TestNode/a/x/row": "TestNode/a/x/row", "TestNode/a/x/row/part": "TestNode/a/x/row",
		"TestNode/a/x/other": "TestNode/a/x", "TestNode/b/y/z": "TestNode/b", "TestNode/a": "", "TestOther": "",
	} {
		if g, ok := e2e.GroupOf(all, test); g.Test != want || ok != (want != "") {
			t.Errorf("group of %s: got %q, want %q", test, g.Test, want)
		}
	}
	if !e2e.Boots(all, "TestNode/a/x") || e2e.Boots(all, "TestNode/b") {
		t.Error("containers: want one for the row of TestNode/a/x, none for TestNode/b")
	}
}
