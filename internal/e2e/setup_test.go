package e2e_test

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"dcm/internal/e2e"
	"dcm/internal/e2e/remote"
)

// patience is what any one wait may take. All waits are for events: it is only
// ever used up by a test that fails.
const patience = 60 * time.Second

func suites() []e2e.Recipe { return []e2e.Recipe{e2e.Bookworm(), e2e.Trixie()} }

// requireContainers skips the test where it cannot run, and where it is not
// asked for: it downloads roots and takes minutes.
func requireContainers(t *testing.T) {
	t.Helper()
	if os.Getenv("DCM_E2E") != "require" {
		t.Skip("end-to-end tests run with DCM_E2E=require, which make test sets")
	}
	if err := e2e.Missing(); err != nil {
		t.Fatal(err)
	}
}

// build compiles one command of this module as it is installed: static.
func build(t *testing.T, pkg string) string {
	t.Helper()
	out := filepath.Join(t.TempDir(), filepath.Base(pkg))
	cmd := exec.CommandContext(t.Context(), "go", "build", "-trimpath", "-o", out, pkg)
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
	if text, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("cannot build %s: %v\n%s", pkg, err, text)
	}
	return out
}

// machine is a container in a test: what fails in it fails the test.
type machine struct {
	*e2e.Container
	t *testing.T
}

func boot(t *testing.T, recipe e2e.Recipe, agent string, seed e2e.Seed) machine {
	t.Helper()
	root, err := recipe.Directory(t.Context(), t.Output())
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	c, err := e2e.Boot(ctx, root, agent, seed)
	if err != nil {
		t.Fatal(err)
	}
	m := machine{c, t}
	t.Cleanup(func() {
		if t.Failed() {
			m.diagnose()
		}
		if err := c.Close(); err != nil {
			t.Error(err)
		}
	})
	return m
}

// in is the same machine in a subtest.
func (m machine) in(t *testing.T) machine { return machine{m.Container, t} }

// try runs a shell command, whatever its exit status.
func (m machine) try(script string, args ...string) remote.Result {
	m.t.Helper()
	ctx, cancel := context.WithTimeout(m.t.Context(), patience)
	defer cancel()
	r, err := m.Run(ctx, append([]string{"sh", "-c", script, "sh"}, args...)...)
	if err != nil {
		m.t.Fatalf("%v\n%s%s", err, r.Stdout, r.Stderr)
	}
	return r
}

// run runs a shell command that must succeed and returns its trimmed output.
func (m machine) run(script string, args ...string) string {
	m.t.Helper()
	r := m.try(script, args...)
	if r.Code != 0 {
		m.t.Fatalf("%s %q: exit status %d\n%s%s", script, args, r.Code, r.Stdout, r.Stderr)
	}
	return strings.TrimSpace(r.Stdout)
}

func (m machine) put(path, content string) {
	m.t.Helper()
	ctx, cancel := context.WithTimeout(m.t.Context(), patience)
	defer cancel()
	if err := m.Put(ctx, path, []byte(content), 0o644); err != nil {
		m.t.Fatal(err)
	}
}

func (m machine) reboot() {
	m.t.Helper()
	ctx, cancel := context.WithTimeout(m.t.Context(), patience)
	defer cancel()
	if err := m.Reboot(ctx); err != nil {
		m.t.Fatalf("%v\n%s", err, m.Console())
	}
}

// diagnose shows what a reader of a failed test will ask for first.
func (m machine) diagnose() {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	m.Diagnose(ctx, m.t.Output())
}
