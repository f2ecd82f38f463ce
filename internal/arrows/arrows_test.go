// Package arrows holds the imports between dcm's packages to one direction. It
// has no code but this test.
package arrows

import (
	"fmt"
	"go/parser"
	"go/token"
	"io/fs"
	"maps"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// allowed says which packages of dcm a package may import, in its code and in
// its tests, beside the vocabulary. A package that is not listed may import none.
var allowed = map[string][]string{
	"internal/partition":    {},
	"internal/foreign":      {},
	"internal/unitname":     {},
	"internal/sorting":      {},
	"internal/placement":    {},
	"internal/caller":       {},
	"internal/admission":    {},
	"internal/guard":        {},
	"internal/dmem":         {},
	"internal/lease":        {"internal/caller", "internal/placement", "internal/report"},
	"internal/exclusive":    {"internal/lease", "internal/report", "internal/systemd"},
	"internal/cdi":          {},
	"internal/report":       {},
	"internal/peer":         {"internal/foreign"},
	"internal/systemd":      {"internal/peer"},
	"internal/watch":        {},
	"internal/dropins":      {},
	"internal/bus":          {"internal/account", "internal/admission", "internal/caller", "internal/peer", "internal/report"},
	"internal/journal":      {},
	"internal/event":        {"internal/journal"},
	"internal/confine":      {},
	"internal/amdsmi":       {"internal/confine"},
	"internal/config":       {},
	"internal/account":      {"internal/report"},
	"internal/history":      {"internal/report"},
	"internal/selftest":     {"internal/report"},
	"internal/attr":         {"internal/foreign"},
	"internal/ask":          {"internal/attr"},
	"internal/varlink":      {},
	"internal/agent":        {"internal/admission", "internal/varlink"},
	"internal/answer":       {},
	"internal/nvml":         {},
	"internal/gpu":          {"internal/attr", "internal/foreign"},
	"internal/opened":       {"internal/attr", "internal/gpu"},
	"internal/nvidia":       {"internal/ask", "internal/attr", "internal/gpu", "internal/nvml", "internal/opened"},
	"internal/amdgpu":       {"internal/ask", "internal/attr", "internal/gpu", "internal/opened"},
	"internal/apply":        {"internal/event", "internal/gpu", "internal/report"},
	"internal/daemon":       {"internal/event", "internal/exit", "internal/report", "internal/systemd"},
	"internal/reboot":       {"internal/foreign"},
	"internal/atload":       {},
	"internal/bundle":       {},
	"internal/slurm":        {},
	"internal/top":          {"internal/account"},
	"internal/metrics":      {"internal/account", "internal/report"},
	"internal/sim":          {"internal/nvml/standin"},
	"internal/ample":        {},
	"internal/surface":      {},
	"internal/sim/simtest":  {"internal/sim"},
	"internal/host":         {"internal/account", "internal/exclusive", "internal/amdgpu", "internal/nvidia", "internal/apply", "internal/config", "internal/gpu", "internal/history", "internal/lease", "internal/placement", "internal/report", "internal/selftest", "internal/systemd"},
	"internal/exit":         {},
	"internal/nvml/binding": {"internal/confine", "internal/nvml"},
	"internal/nvml/standin": {},
	"internal/service": {"internal/account", "internal/admission", "internal/agent", "internal/varlink", "internal/cdi", "internal/dmem", "internal/exclusive", "internal/lease", "internal/placement", "internal/apply", "internal/atload", "internal/bus", "internal/caller", "internal/config", "internal/daemon", "internal/dropins", "internal/event", "internal/exit", "internal/gpu", "internal/history", "internal/host",
		"internal/metrics", "internal/reboot", "internal/report", "internal/systemd", "internal/watch"},
	"internal/varlink/varlinktest": {},
	"internal/cli": {"internal/account", "internal/apply", "internal/bundle", "internal/bus", "internal/config", "internal/daemon", "internal/exit", "internal/gpu", "internal/history", "internal/host", "internal/journal", "internal/lease", "internal/placement",
		"internal/metrics", "internal/report", "internal/selftest", "internal/service", "internal/slurm", "internal/systemd", "internal/top", "internal/watch"},
	"cmd/dcm":         {"internal/cli", "internal/host"},
	"cmd/dcm-service": {"internal/exit", "internal/host", "internal/journal", "internal/service"},
	"cmd/dcm-smi":     {"internal/amdsmi", "internal/answer", "internal/confine"},
	"cmd/dcm-nvml":    {"internal/answer", "internal/confine", "internal/nvml", "internal/nvml/binding"},
	"cmd/dcm-sim":     {"internal/sim"},
	"cmd/dcm-host":    {"internal/carry", "internal/systemd"},
	"internal/carry":  {},
	"cmd/dcm-guard":   {"internal/dmem", "internal/exclusive", "internal/guard", "internal/journal", "internal/lease", "internal/report", "internal/systemd"},

	// A module of its own, which takes nothing of dcm's but what the socket answers.
	"cmd/dcm-kubernetes": {"cmd/dcm-kubernetes/internal/agent", "cmd/dcm-kubernetes/internal/bridge", "cmd/dcm-kubernetes/internal/cluster",
		"cmd/dcm-kubernetes/internal/desired", "cmd/dcm-kubernetes/internal/feature", "cmd/dcm-kubernetes/internal/sequence"},
	"cmd/dcm-kubernetes/internal/rendered":   {},
	"cmd/dcm-kubernetes/internal/agent":      {},
	"cmd/dcm-kubernetes/internal/feature":    {},
	"cmd/dcm-kubernetes/internal/image":      {},
	"cmd/dcm-kubernetes/internal/image/make": {"cmd/dcm-kubernetes/internal/image"},
	"cmd/dcm-kubernetes/internal/sequence":   {},
	"cmd/dcm-kubernetes/internal/desired":    {"cmd/dcm-kubernetes/internal/sequence"},
	"cmd/dcm-kubernetes/internal/cluster":    {"cmd/dcm-kubernetes/internal/sequence"},
	"cmd/dcm-kubernetes/internal/standin":    {"cmd/dcm-kubernetes/internal/agent"},
	"cmd/dcm-kubernetes/internal/real": {"cmd/dcm-kubernetes/internal/agent", "cmd/dcm-kubernetes/internal/bridge", "cmd/dcm-kubernetes/internal/cluster", "cmd/dcm-kubernetes/internal/desired",
		"cmd/dcm-kubernetes/internal/sequence"},
	"cmd/dcm-kubernetes/internal/bridge": {"cmd/dcm-kubernetes/internal/agent", "cmd/dcm-kubernetes/internal/cluster", "cmd/dcm-kubernetes/internal/desired",
		"cmd/dcm-kubernetes/internal/feature", "cmd/dcm-kubernetes/internal/sequence"},
}

// outside says which modules only certain packages may import.
var outside = map[string][]string{
	"github.com/ebitengine/purego":        {"internal/amdsmi", "internal/nvml/binding"},
	"unsafe":                              {"internal/amdsmi", "internal/amdgpu", "internal/confine", "internal/guard"},
	"C":                                   {},
	"github.com/godbus/dbus":              {"internal/systemd", "internal/bus", "internal/peer"},
	"github.com/coreos/go-systemd/v22/db": {"internal/systemd"},
	"github.com/fsnotify/fsnotify":        {"internal/watch", "cmd/dcm-kubernetes/internal/desired"},
	"github.com/BurntSushi/toml":          {"internal/config"},
	"github.com/spf13/cobra":              {"internal/cli", "cmd/dcm-sim"},
	"github.com/hanwen/go-fuse":           {"internal/sim"},
	"sigs.k8s.io/kustomize/":              {"cmd/dcm-kubernetes/internal/rendered"},
	"k8s.io/":                             {"cmd/dcm-kubernetes", "cmd/dcm-kubernetes/internal/bridge", "cmd/dcm-kubernetes/internal/cluster"},
}

func TestImportsRunOneWay(t *testing.T) {
	seen := make(map[string]bool)
	each(t, func(pkg, file string, test bool, path string) {
		seen[pkg] = true
		if inner, ok := strings.CutPrefix(path, "dcm/"); ok {
			if test && standIn(inner) || slices.Contains(common, inner) || inner == pkg || strings.HasPrefix(inner, pkg+"/") {
				return
			}
			if !slices.Contains(allowed[pkg], inner) {
				t.Errorf("%s imports %s: %s may import only %q", file, inner, pkg, allowed[pkg])
			}
			return
		}
		for prefix, by := range outside {
			if strings.HasPrefix(path, prefix) && !test && !slices.Contains(by, pkg) {
				t.Errorf("%s imports %s, which only %q may", file, path, by)
			}
		}
	})
	for pkg := range allowed {
		if !seen[pkg] {
			t.Errorf("%s is listed here, but it is not there", pkg)
		}
	}
}

// common is what every package may speak: the vocabulary, the names of dcm's own units, order,
// and the door by which text from outside comes in.
var common = []string{"internal/partition", "internal/foreign", "internal/unitname", "internal/sorting"}

// standIn tells whether a package stands in for hardware or for a library, drives the
// hardware that is stood in for, makes the roots of other systems, calls a service, or
// gives time enough, which is what any test may use.
func standIn(pkg string) bool {
	return strings.HasPrefix(pkg, "internal/sim") || strings.HasPrefix(pkg, "internal/amdsmi") || pkg == "internal/nvml/standin" ||
		pkg == "cmd/dcm-kubernetes/internal/standin" || pkg == "cmd/dcm-kubernetes/internal/rendered" ||
		slices.Contains([]string{"internal/amdgpu", "internal/nvidia", "internal/ask", "internal/e2e", "internal/ample", "internal/varlink/varlinktest"}, pkg)
}

// each calls f for every import of every package but the end-to-end tests, which
// drive the whole.
func each(t *testing.T, f func(pkg, file string, test bool, path string)) {
	t.Helper()
	top := filepath.Join("..", "..")
	err := filepath.WalkDir(top, func(file string, d fs.DirEntry, err error) error {
		rel, _ := filepath.Rel(top, file)
		switch {
		case err != nil:
			return err
		case d.IsDir() && (rel == "internal/e2e" || rel == "internal/arrows" || d.Name() == "testdata" || strings.HasPrefix(d.Name(), ".") && rel != "."):
			return fs.SkipDir
		case d.IsDir() || !strings.HasSuffix(file, ".go"):
			return nil
		}
		parsed, err := parser.ParseFile(token.NewFileSet(), file, nil, parser.ImportsOnly)
		if err != nil {
			return err
		}
		for _, i := range parsed.Imports {
			path, err := strconv.Unquote(i.Path.Value)
			if err != nil {
				return err
			}
			f(filepath.Dir(rel), rel, strings.HasSuffix(file, "_test.go"), path)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}

// TestFloors prints the house: a package stands a floor above all that it imports.
func TestFloors(t *testing.T) {
	imports := make(map[string][]string)
	each(t, func(pkg, _ string, test bool, path string) {
		inner, ok := strings.CutPrefix(path, "dcm/")
		if ok && !test && inner != pkg && !slices.Contains(imports[pkg], inner) {
			imports[pkg] = append(imports[pkg], inner)
		}
	})
	floors := make(map[int][]string)
	for _, pkg := range slices.Sorted(maps.Keys(allowed)) {
		n := floor(imports, pkg)
		slices.Sort(imports[pkg])
		floors[n] = append(floors[n], strings.TrimRight(pkg+"  "+strings.Join(imports[pkg], " "), " "))
	}
	var lines strings.Builder
	for _, n := range slices.Backward(slices.Sorted(maps.Keys(floors))) {
		for _, line := range floors[n] {
			fmt.Fprintf(&lines, "\nfloor %d  %s", n, strings.ReplaceAll(line, "internal/", ""))
		}
	}
	t.Log(lines.String())
}

// floor is 1 for a package that imports none of dcm's. Go allows no circle.
func floor(imports map[string][]string, pkg string) int {
	n := 1
	for _, below := range imports[pkg] {
		n = max(n, floor(imports, below)+1)
	}
	return n
}
