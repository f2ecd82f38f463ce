package importrules

import (
	"go/parser"
	"go/token"
	"io/fs"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// allowed says which packages of dcm a package may import, in its code and in
// its tests, in addition to the common packages. A package that is not listed may import none.
var allowed = map[string][]string{
	"internal/gpu/partition":            {},
	"internal/sanitize":                 {},
	"internal/linux/atomicfile":         {},
	"internal/linux/filelock":           {},
	"internal/linux/unitname":           {},
	"internal/sorting":                  {},
	"internal/text":                     {},
	"internal/linux/procstat":           {},
	"internal/linux/pathwalk":           {},
	"internal/leases/placement":         {"internal/engine/runstate"},
	"internal/linux/caller":             {},
	"internal/frontends/admission":      {},
	"internal/linux/devguard":           {},
	"internal/leases/dmem":              {},
	"internal/leases/lease":             {"internal/engine/hours", "internal/engine/runstate", "internal/gpu/made", "internal/leases/placement", "internal/linux/caller"},
	"internal/leases/accounting":        {"internal/engine/event", "internal/leases/lease", "internal/linux/journal"},
	"internal/leases/exclusive":         {"internal/leases/lease", "internal/engine/runstate", "internal/linux/systemd"},
	"internal/linux/cdi":                {"internal/linux/atomicfile"},
	"internal/linux/statefile":          {"internal/linux/atomicfile"},
	"internal/engine/runstate":          {"internal/engine/event", "internal/linux/statefile", "internal/linux/unitname"},
	"internal/linux/dbusconn":           {"internal/sanitize"},
	"internal/linux/systemd":            {"internal/linux/dbusconn"},
	"internal/linux/watch":              {"internal/linux/pathwalk"},
	"internal/linux/dropins":            {},
	"internal/frontends/dbusapi":        {"internal/frontends/status", "internal/frontends/admission", "internal/linux/caller", "internal/linux/dbusconn", "internal/engine/runstate"},
	"internal/linux/journal":            {},
	"internal/engine/event":             {"internal/linux/journal"},
	"internal/worker/sandbox":           {"internal/linux/pathwalk", "internal/worker/serve"},
	"internal/gpu/amdsmi":               {"internal/worker/sandbox", "internal/worker/serve"},
	"internal/engine/config":            {"internal/engine/hours"},
	"internal/engine/hours":             {},
	"internal/engine/config/source":     {"internal/linux/atomicfile", "internal/linux/pathwalk"},
	"internal/engine/config/rule":       {"internal/engine/config/source"},
	"internal/engine/config/kubernetes": {"internal/engine/config/source", "internal/engine/config/rule"},
	"internal/engine/config/importer":   {"internal/engine/config", "internal/engine/config/source", "internal/engine/config/rule", "internal/engine/config/kubernetes"},
	"internal/engine/config/selection":  {"internal/linux/atomicfile", "internal/linux/filelock", "internal/engine/config", "internal/engine/config/source", "internal/engine/config/rule"},
	"internal/engine/config/configtest": {"internal/engine/config", "internal/engine/config/source"},
	"internal/frontends/status":         {"internal/linux/sysfs", "internal/linux/statefile", "internal/engine/runstate"},
	"internal/engine/history":           {"internal/linux/atomicfile", "internal/engine/runstate"},
	"internal/linux/sysfs":              {"internal/sanitize"},
	"internal/linux/cpus":               {"internal/linux/sysfs"},
	"internal/worker/call":              {"internal/linux/sysfs"},
	"internal/frontends/varlink":        {},
	"internal/frontends/agent":          {"internal/frontends/admission", "internal/frontends/varlink"},
	"internal/worker/serve":             {},
	"internal/gpu/nvml":                 {"internal/worker/serve"},
	"internal/gpu":                      {"internal/linux/sysfs", "internal/sanitize", "internal/gpu/modprobe"},
	"internal/gpu/made":                 {},
	"internal/gpu/openfiles":            {"internal/linux/procstat", "internal/linux/sysfs", "internal/gpu"},
	"internal/gpu/nvidia":               {"internal/linux/cdi", "internal/linux/procstat", "internal/worker/call", "internal/linux/sysfs", "internal/gpu", "internal/gpu/nvml", "internal/gpu/openfiles"},
	"internal/gpu/amdgpu":               {"internal/linux/procstat", "internal/worker/serve", "internal/worker/call", "internal/linux/statefile", "internal/linux/sysfs", "internal/gpu", "internal/gpu/modprobe", "internal/gpu/openfiles"},
	"internal/engine/apply":             {"internal/engine/event", "internal/gpu", "internal/engine/runstate"},
	"internal/engine/daemon":            {"internal/engine/event", "internal/engine/runstate", "internal/exitcode", "internal/linux/systemd", "internal/text"},
	"internal/engine/reboot":            {"internal/linux/procstat", "internal/linux/statefile", "internal/sanitize"},
	"internal/gpu/record":               {"internal/worker/serve", "internal/gpu", "internal/gpu/nvml", "internal/linux/sysfs", "internal/worker/call"},
	"internal/gpu/modprobe":             {"internal/linux/atomicfile", "internal/linux/sysfs"},
	"internal/frontends/supportbundle":  {},
	"internal/frontends/slurm":          {},
	"internal/frontends/top":            {"internal/frontends/status"},
	"internal/frontends/metrics":        {"internal/linux/atomicfile", "internal/frontends/status", "internal/engine/runstate"},
	"internal/testkit/sim":              {"internal/gpu/nvml", "internal/gpu/nvml/standin", "internal/gpu/record"},
	"internal/testkit/soak":             {},
	"internal/testkit/pid1":             {},
	"internal/testkit/histories":        {"internal/app/plan", "internal/engine/apply", "internal/engine/config", "internal/engine/daemon", "internal/engine/host", "internal/engine/runstate", "internal/exitcode", "internal/gpu", "internal/gpu/amdgpu", "internal/linux/systemd", "internal/testkit/pid1", "internal/testkit/sim"},
	"internal/testkit/testedon":         {"internal/gpu/record", "internal/testkit/sim"},
	"internal/testkit/testedon/make":    {"internal/testkit/testedon"},
	"internal/testkit/examples":         {},
	"internal/testkit/pty":              {},
	"internal/testkit/testdeadline":     {},
	"internal/testkit/surface":          {},
	"internal/testkit/sim/simtest":      {"internal/testkit/sim"},
	"internal/engine/host":              {"internal/engine/apply", "internal/engine/config", "internal/engine/config/selection", "internal/engine/history", "internal/engine/runstate", "internal/gpu", "internal/gpu/amdgpu", "internal/gpu/made", "internal/gpu/nvidia", "internal/gpu/record", "internal/linux/filelock", "internal/linux/systemd"},
	"internal/engine/host/hosttest":     {},
	"internal/leases/reservation":       {"internal/gpu/made", "internal/engine/config", "internal/engine/host", "internal/engine/runstate", "internal/gpu", "internal/leases/lease", "internal/leases/placement", "internal/linux/systemd"},
	"internal/leases/guard":             {"internal/engine/host", "internal/engine/runstate", "internal/leases/exclusive"},
	"internal/leases/drain":             {"internal/engine/host", "internal/engine/runstate", "internal/linux/filelock"},
	"internal/frontends/status/gather":  {"internal/engine/apply", "internal/engine/config", "internal/engine/host", "internal/engine/runstate", "internal/frontends/status", "internal/gpu", "internal/leases/drain", "internal/leases/exclusive", "internal/leases/guard", "internal/leases/reservation", "internal/linux/procstat", "internal/linux/systemd"},
	"internal/app/plan":                 {"internal/engine/apply", "internal/engine/config", "internal/engine/daemon", "internal/engine/host", "internal/engine/runstate", "internal/exitcode", "internal/frontends/status", "internal/frontends/status/gather", "internal/gpu", "internal/leases/reservation", "internal/linux/systemd"},
	"internal/app/selftest":             {"internal/engine/config", "internal/engine/host", "internal/engine/runstate", "internal/linux/statefile", "internal/frontends/status/gather", "internal/gpu"},
	"internal/exitcode":                 {},
	"internal/gpu/nvml/binding":         {"internal/worker/sandbox", "internal/gpu/nvml"},
	"internal/gpu/nvml/standin":         {},
	"internal/app/leaseservice": {"internal/linux/procstat", "internal/gpu/made", "internal/leases/guard", "internal/leases/reservation", "internal/leases/drain", "internal/frontends/status/gather", "internal/engine/host", "internal/engine/apply", "internal/engine/config", "internal/engine/runstate", "internal/frontends/dbusapi",
		"internal/frontends/status", "internal/gpu", "internal/leases/dmem", "internal/leases/exclusive", "internal/leases/lease", "internal/leases/placement",
		"internal/engine/event", "internal/exitcode", "internal/linux/atomicfile", "internal/linux/caller", "internal/linux/cpus", "internal/linux/filelock", "internal/linux/systemd", "internal/linux/watch"},
	"internal/app/reservations": {"internal/gpu/made", "internal/leases/reservation", "internal/engine/host", "internal/app/leaseservice", "internal/engine/config", "internal/engine/event", "internal/engine/runstate", "internal/gpu", "internal/leases/lease",
		"internal/leases/placement", "internal/linux/cdi", "internal/linux/systemd"},
	"internal/app/agentservice": {"internal/leases/reservation", "internal/app/plan", "internal/engine/host", "internal/engine/apply", "internal/engine/config", "internal/engine/config/selection", "internal/engine/config/source",
		"internal/engine/runstate", "internal/frontends/admission", "internal/frontends/agent", "internal/frontends/dbusapi", "internal/frontends/status",
		"internal/frontends/varlink", "internal/gpu"},
	"internal/app/service": {"internal/linux/procstat", "internal/gpu/made", "internal/leases/reservation", "internal/leases/guard", "internal/frontends/status/gather", "internal/app/plan", "internal/app/agentservice", "internal/engine/host", "internal/app/leaseservice", "internal/app/reservations", "internal/engine/apply",
		"internal/engine/config", "internal/engine/config/selection", "internal/engine/config/source", "internal/engine/daemon", "internal/engine/event",
		"internal/engine/history", "internal/engine/reboot", "internal/engine/runstate", "internal/exitcode", "internal/frontends/dbusapi",
		"internal/frontends/metrics", "internal/frontends/status", "internal/gpu", "internal/gpu/modprobe", "internal/linux/atomicfile",
		"internal/linux/dropins", "internal/linux/filelock", "internal/linux/systemd", "internal/linux/watch"},
	"internal/frontends/varlink/varlinktest": {},
	"internal/app/cli": {"internal/app/cli/bundle", "internal/app/cli/change", "internal/app/cli/configure", "internal/app/cli/console", "internal/app/cli/fluxcmd", "internal/app/cli/leases",
		"internal/app/cli/query", "internal/app/cli/selftestcmd", "internal/app/cli/slurmcmd", "internal/app/cli/unit", "internal/engine/host",
		"internal/app/selftest", "internal/app/service", "internal/engine/apply", "internal/engine/config", "internal/engine/history",
		"internal/engine/runstate", "internal/exitcode", "internal/frontends/dbusapi", "internal/frontends/metrics", "internal/frontends/status",
		"internal/gpu/nvml/standin", "internal/leases/placement"},
	"internal/app/cli/bundle": {"internal/app/cli/console", "internal/engine/host", "internal/engine/config", "internal/engine/runstate", "internal/frontends/supportbundle",
		"internal/gpu", "internal/gpu/record", "internal/linux/atomicfile", "internal/linux/atomicfile"},
	"internal/app/cli/change": {"internal/engine/history", "internal/leases/drain", "internal/app/plan", "internal/app/cli/client", "internal/app/cli/console", "internal/app/cli/nodemodel", "internal/engine/host", "internal/app/leaseservice", "internal/engine/config",
		"internal/engine/config/selection", "internal/engine/apply", "internal/engine/daemon", "internal/engine/runstate", "internal/exitcode", "internal/frontends/dbusapi",
		"internal/frontends/status", "internal/gpu", "internal/linux/filelock", "internal/linux/journal", "internal/linux/systemd", "internal/linux/watch"},
	"internal/app/cli/client": {"internal/frontends/status/gather", "internal/engine/host", "internal/app/leaseservice", "internal/engine/config", "internal/engine/daemon", "internal/engine/runstate", "internal/exitcode", "internal/linux/procstat", "internal/linux/watch",
		"internal/frontends/dbusapi", "internal/frontends/status", "internal/linux/systemd"},
	"internal/app/doctor": {"internal/gpu/nvidia", "internal/linux/cdi", "internal/linux/sysfs"},
	"internal/app/cli/configure": {"internal/engine/apply", "internal/linux/filelock", "internal/app/cli/bundle", "internal/app/doctor", "internal/linux/cdi", "internal/engine/runstate", "internal/leases/reservation", "internal/frontends/status/gather", "internal/app/cli/client", "internal/app/cli/console", "internal/app/cli/nodemodel", "internal/app/cli/query", "internal/app/cli/slurmcmd", "internal/engine/host",
		"internal/engine/config", "internal/engine/config/importer", "internal/frontends/status", "internal/gpu", "internal/linux/systemd"},
	"internal/app/cli/console": {"internal/engine/host", "internal/exitcode"},
	"internal/app/cli/nodemodel": {"internal/frontends/status/gather", "internal/app/plan", "internal/app/cli/client", "internal/engine/host", "internal/app/leaseservice", "internal/engine/config", "internal/engine/runstate", "internal/exitcode",
		"internal/frontends/dbusapi", "internal/gpu", "internal/gpu/record", "internal/leases/lease", "internal/leases/placement"},
	"internal/app/cli/leases": {"internal/leases/accounting", "internal/leases/guard", "internal/linux/cpus", "internal/linux/journal", "internal/linux/systemd", "internal/linux/cdi", "internal/app/cli/client", "internal/app/cli/console", "internal/app/cli/nodemodel", "internal/engine/host", "internal/app/leaseservice", "internal/engine/runstate",
		"internal/exitcode", "internal/frontends/dbusapi", "internal/frontends/status", "internal/gpu", "internal/leases/lease", "internal/leases/placement"},
	"internal/app/cli/query": {"internal/leases/reservation", "internal/frontends/status/gather", "internal/app/plan", "internal/app/cli/bundle", "internal/app/cli/client", "internal/app/cli/console", "internal/app/cli/nodemodel", "internal/engine/host",
		"internal/engine/apply", "internal/engine/config", "internal/engine/daemon", "internal/engine/runstate", "internal/exitcode",
		"internal/frontends/metrics", "internal/frontends/status", "internal/frontends/top", "internal/gpu", "internal/gpu/record", "internal/linux/atomicfile", "internal/leases/lease",
		"internal/leases/placement", "internal/engine/event", "internal/engine/history", "internal/linux/journal", "internal/linux/watch"},
	"internal/app/cli/selftestcmd": {"internal/app/plan", "internal/app/cli/bundle", "internal/gpu/record", "internal/linux/unitname", "internal/sanitize", "internal/engine/apply", "internal/app/cli/change", "internal/app/cli/client", "internal/app/cli/console", "internal/app/cli/nodemodel", "internal/engine/host",
		"internal/app/selftest", "internal/engine/config", "internal/engine/config/selection", "internal/engine/daemon", "internal/engine/runstate",
		"internal/exitcode", "internal/frontends/metrics", "internal/frontends/status", "internal/frontends/supportbundle", "internal/gpu",
		"internal/linux/atomicfile", "internal/linux/journal", "internal/linux/systemd", "internal/linux/watch"},
	"internal/app/cli/fluxcmd": {"internal/app/cli/change", "internal/app/cli/client", "internal/app/cli/console", "internal/engine/config", "internal/engine/host",
		"internal/engine/runstate", "internal/exitcode"},
	"internal/app/cli/slurmcmd": {"internal/linux/atomicfile", "internal/linux/cpus", "internal/frontends/status/gather", "internal/app/cli/change", "internal/app/cli/client", "internal/app/cli/console", "internal/engine/host", "internal/engine/apply",
		"internal/engine/config", "internal/engine/config/selection", "internal/engine/runstate", "internal/exitcode", "internal/frontends/slurm", "internal/frontends/status",
		"internal/gpu", "internal/gpu/partition", "internal/linux/filelock", "internal/linux/systemd", "internal/linux/watch"},
	"internal/app/cli/unit":  {"internal/exitcode", "internal/app/cli/console", "internal/engine/host", "internal/app/service", "internal/linux/journal"},
	"cmd/dcm":                {"internal/app/cli", "internal/engine/host"},
	"cmd/dcm-service":        {"internal/exitcode", "internal/engine/host", "internal/linux/journal", "internal/app/leaseservice", "internal/app/service"},
	"cmd/dcm-smi":            {"internal/gpu/amdsmi", "internal/worker/serve", "internal/worker/sandbox"},
	"cmd/dcm-nvml":           {"internal/worker/serve", "internal/worker/sandbox", "internal/gpu/nvml", "internal/gpu/nvml/binding"},
	"cmd/dcm-sim":            {"internal/testkit/sim"},
	"cmd/dcm-kit":            {"internal/frontends/supportbundle", "internal/gpu/record", "internal/linux/atomicfile"},
	"cmd/dcm-host":           {"internal/app/hostimage", "internal/linux/systemd"},
	"internal/app/hostimage": {"internal/linux/atomicfile"},
	"cmd/dcm-guard":          {"internal/leases/dmem", "internal/leases/exclusive", "internal/linux/devguard", "internal/linux/journal", "internal/leases/lease", "internal/engine/runstate", "internal/linux/systemd"},

	// A module of its own, which takes nothing of dcm's but what the socket answers.
	"cmd/dcm-kubernetes": {"cmd/dcm-kubernetes/internal/agent", "cmd/dcm-kubernetes/internal/bridge", "cmd/dcm-kubernetes/internal/cluster",
		"cmd/dcm-kubernetes/internal/desired", "cmd/dcm-kubernetes/internal/feature", "cmd/dcm-kubernetes/internal/sequence", "cmd/dcm-kubernetes/internal/vendor"},
	"cmd/dcm-kubernetes/internal/rendered":   {},
	"cmd/dcm-kubernetes/internal/agent":      {},
	"cmd/dcm-kubernetes/internal/vendor":     {},
	"cmd/dcm-kubernetes/internal/feature":    {},
	"cmd/dcm-kubernetes/internal/image":      {},
	"cmd/dcm-kubernetes/internal/image/make": {"cmd/dcm-kubernetes/internal/image"},
	"cmd/dcm-kubernetes/internal/sequence":   {"cmd/dcm-kubernetes/internal/vendor"},
	"cmd/dcm-kubernetes/internal/desired":    {"cmd/dcm-kubernetes/internal/sequence", "cmd/dcm-kubernetes/internal/vendor"},
	"cmd/dcm-kubernetes/internal/cluster":    {"cmd/dcm-kubernetes/internal/sequence", "cmd/dcm-kubernetes/internal/vendor"},
	"cmd/dcm-kubernetes/internal/standin":    {"cmd/dcm-kubernetes/internal/agent"},
	"cmd/dcm-kubernetes/internal/real": {"cmd/dcm-kubernetes/internal/agent", "cmd/dcm-kubernetes/internal/bridge", "cmd/dcm-kubernetes/internal/cluster", "cmd/dcm-kubernetes/internal/desired",
		"cmd/dcm-kubernetes/internal/sequence", "cmd/dcm-kubernetes/internal/vendor"},
	"cmd/dcm-kubernetes/internal/bridge": {"cmd/dcm-kubernetes/internal/agent", "cmd/dcm-kubernetes/internal/cluster", "cmd/dcm-kubernetes/internal/desired",
		"cmd/dcm-kubernetes/internal/feature", "cmd/dcm-kubernetes/internal/sequence", "cmd/dcm-kubernetes/internal/vendor"},
}

// outside says which modules only certain packages may import.
var outside = map[string][]string{
	"github.com/ebitengine/purego":        {"internal/gpu/amdsmi", "internal/gpu/nvml/binding"},
	"unsafe":                              {"internal/gpu/amdsmi", "internal/gpu/amdgpu", "internal/worker/sandbox", "internal/linux/devguard"},
	"C":                                   {},
	"github.com/godbus/dbus":              {"internal/linux/systemd", "internal/frontends/dbusapi", "internal/linux/dbusconn"},
	"github.com/coreos/go-systemd/v22/db": {"internal/linux/systemd"},
	"github.com/fsnotify/fsnotify":        {"internal/linux/watch", "cmd/dcm-kubernetes/internal/desired"},
	"github.com/BurntSushi/toml":          {"internal/engine/config/source"},
	"github.com/spf13/cobra":              {"internal/app/cli", "internal/app/cli/change", "internal/app/cli/configure", "internal/app/cli/console", "internal/app/cli/fluxcmd", "internal/app/cli/nodemodel", "internal/app/cli/leases", "internal/app/cli/query", "internal/app/cli/selftestcmd", "internal/app/cli/slurmcmd", "internal/app/cli/unit", "cmd/dcm-sim"},
	"github.com/hanwen/go-fuse":           {"internal/testkit/sim"},
	"mvdan.cc/sh/":                        {"internal/testkit/examples"},
	"sigs.k8s.io/kustomize/":              {"cmd/dcm-kubernetes/internal/rendered"},
	"k8s.io/":                             {"cmd/dcm-kubernetes", "cmd/dcm-kubernetes/internal/bridge", "cmd/dcm-kubernetes/internal/cluster"},
}

func TestImports(t *testing.T) {
	seen := make(map[string]bool)
	each(t, func(pkg, file string, test bool, path string) {
		seen[pkg] = true
		if inner, ok := strings.CutPrefix(path, "dcm/"); ok {
			if test && standIn(inner) || slices.Contains(common, inner) || inner == pkg || nested(pkg, inner) {
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
			t.Errorf("%s: listed here, but there is no such package", pkg)
		}
	}
}

// common is what every package may speak: the vocabulary, the names of dcm's own units, order,
// the format of messages, and the door by which text from outside comes in.
var common = []string{"internal/gpu/partition", "internal/sanitize", "internal/linux/unitname", "internal/sorting", "internal/text"}

// standIn reports whether a package stands in for hardware or for a library, drives the
// hardware that is stood in for, makes the roots of other systems, calls a service, or
// gives time enough, which is what any test may use.
func standIn(pkg string) bool {
	return strings.HasPrefix(pkg, "internal/testkit/sim") || strings.HasPrefix(pkg, "internal/gpu/amdsmi") || pkg == "internal/gpu/nvml/standin" ||
		pkg == "cmd/dcm-kubernetes/internal/standin" || pkg == "cmd/dcm-kubernetes/internal/rendered" ||
		slices.Contains([]string{"internal/gpu/amdgpu", "internal/gpu/nvidia", "internal/worker/call", "internal/testkit/e2e", "internal/testkit/examples", "internal/testkit/pty", "internal/testkit/soak", "internal/testkit/testdeadline", "internal/frontends/varlink/varlinktest", "internal/engine/config/configtest", "internal/engine/host/hosttest"}, pkg)
}

// each calls f for every import of every package but the end-to-end tests, which
// drive the whole.
func each(t *testing.T, f func(pkg, file string, test bool, path string)) {
	t.Helper()
	top := filepath.Join("..", "..", "..")
	err := filepath.WalkDir(top, func(file string, d fs.DirEntry, err error) error {
		rel, _ := filepath.Rel(top, file)
		switch {
		case err != nil:
			return err
		case d.IsDir() && (rel == "internal/testkit/e2e" || rel == "internal/testkit/importrules" || d.Name() == "testdata" || strings.HasPrefix(d.Name(), ".") && rel != "."):
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

// nested reports whether a package is part of another one, such as its stand-in for tests.
// The packages of a group are not part of the package that documents the group.
func nested(pkg, inner string) bool {
	_, isGroup := groups[strings.TrimPrefix(pkg, "internal/")]
	return !isGroup && strings.HasPrefix(inner, pkg+"/")
}
