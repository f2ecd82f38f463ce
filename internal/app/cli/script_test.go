package cli

import (
	"errors"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"

	"dcm/internal/engine/host"
	"dcm/internal/exitcode"
	"dcm/internal/testkit/sim"
	"dcm/internal/testkit/sim/simtest"
)

func TestMain(m *testing.M) {
	testscript.Main(m, map[string]func(){
		"dcm": func() {
			args := os.Args[1:]
			if root := os.Getenv("DCM_TEST_ROOT"); root != "" {
				args = append([]string{"--root", root}, args...)
			}
			Main(&host.Host{Root: "/", Version: "devel"}, args)
		},
	})
}

// TestPlainScripts are the scripts in testdata/plain, on a host without a GPU.
func TestPlainScripts(t *testing.T) {
	testscript.Run(t, testscript.Params{Dir: "testdata/plain", Cmds: commands(), Setup: func(e *testscript.Env) error {
		return layOut(e, "")
	}})
}

// TestNodeScripts are the scripts in testdata/node, each on a simulated node of
// its own. The first word of a file's name is the kind of node, and old-minors in it
// makes the kernel an older one.
func TestNodeScripts(t *testing.T) {
	files, err := filepath.Glob("testdata/node/*.txtar")
	if err != nil || len(files) == 0 {
		t.Fatalf("no scripts: %v", err)
	}
	for _, file := range files {
		kind, _, _ := strings.Cut(strings.TrimSuffix(filepath.Base(file), ".txtar"), "_")
		t.Run(filepath.Base(file), func(t *testing.T) {
			node := simtest.Start(t, kind, sim.Options{OldMinors: strings.Contains(file, "old-minors")})
			testscript.Run(t, testscript.Params{Files: []string{file}, Cmds: commands(), Setup: func(e *testscript.Env) error {
				// What modprobe is, the oneshot finds in PATH.
				e.Setenv("PATH", filepath.Dir(node.Modprobe)+string(filepath.ListSeparator)+e.Getenv("PATH"))
				e.Setenv("CTL", filepath.Join(node.Mount, "ctl"))
				return layOut(e, node.Mount)
			}})
		})
	}
}

// commands are those that the scripts have in addition: "exits STATUS COMMAND..." runs a
// command of dcm that ends with that status.
func commands() map[string]func(*testscript.TestScript, bool, []string) {
	return map[string]func(*testscript.TestScript, bool, []string){
		"exits": func(ts *testscript.TestScript, neg bool, args []string) {
			if neg || len(args) < 2 {
				ts.Fatalf("usage: exits STATUS COMMAND...")
			}
			status := exitcode.OK
			err := ts.Exec("dcm", args[1:]...)
			if ended, ok := errors.AsType[*exec.ExitError](err); ok {
				status = ended.ExitCode()
			} else {
				ts.Check(err)
			}
			if strconv.Itoa(status) != args[0] {
				ts.Fatalf("exit status %d, want %s", status, args[0])
			}
		},
	}
}

// layOut makes the script's directory a host: the shipped profiles, the real
// /proc, and the node's files if there is one.
func layOut(e *testscript.Env, node string) error {
	e.Setenv("DCM_TEST_ROOT", e.WorkDir)
	shipped := filepath.Join(e.WorkDir, "usr/lib/dcm/dcm.toml.d")
	links := map[string]string{"proc": "/proc"}
	if node != "" {
		links["sys"], links["dev"] = filepath.Join(node, "sys"), filepath.Join(node, "dev")
	}
	var errs []error
	for name, target := range links {
		errs = append(errs, os.Symlink(target, filepath.Join(e.WorkDir, name)))
	}
	for _, dir := range []string{"etc/dcm/dcm.toml.d", "run/dcm", "sys"} {
		if err := os.MkdirAll(filepath.Join(e.WorkDir, dir), 0o755); err != nil && !errors.Is(err, fs.ErrExist) {
			errs = append(errs, err)
		}
	}
	errs = append(errs, os.CopyFS(shipped, os.DirFS("../../../packaging/profiles")))
	return errors.Join(errs...)
}
