package cli

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"dcm/internal/app/cli/console"
	"dcm/internal/engine/host"
	"dcm/internal/testkit/sim"
	"dcm/internal/testkit/sim/simtest"
)

// TestRecord_SameAccount records nodes, replays them, and compares what the commands print.
func TestRecord_SameAccount(t *testing.T) {
	for _, kind := range []string{"mi300x-8", "mi300a-4", "unknown-8"} {
		t.Run(kind, func(t *testing.T) {
			n := simtest.Start(t, kind, sim.Options{})
			file := filepath.Join(t.TempDir(), "node.json")
			if code, out := inTree(t, n.Mount, "record", file); code != 0 {
				t.Fatalf("exit status %d: %s", code, out)
			}
			again := simtest.Start(t, file, sim.Options{})
			for _, command := range [][]string{{"gpus", "--json"}, {"gpus"}, {"partitions", "--json"}, {"topology"}} {
				_, before := inTree(t, n.Mount, command...)
				_, after := inTree(t, again.Mount, command...)
				if diff := cmp.Diff(before, after); diff != "" {
					t.Errorf("dcm %v differs:\n%s", command, diff)
				}
			}
			if code, out := inTree(t, n.Mount, "profiles", "--node", file); code != 0 {
				t.Errorf("with --node: exit status %d: %s", code, out)
			}
			if info, err := os.Stat(file); err != nil || info.Mode().Perm() != 0o644 {
				t.Errorf("the file is %v, %v", info, err)
			}
		})
	}
}

// inTree runs a command for the tree of a simulated node, and returns what it printed.
func inTree(t *testing.T, root string, args ...string) (int, string) {
	t.Helper()
	var out bytes.Buffer
	code := Run(t.Context(), &host.Host{Root: root, Version: "devel"}, &console.Console{Out: &out, Err: &out}, args)
	return code, strings.ReplaceAll(out.String(), root, "")
}
