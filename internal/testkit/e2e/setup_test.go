package e2e_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"dcm/internal/testkit/e2e"
)

// waitTimeout limits one wait for an event, see package testdeadline. Only a failing test
// reaches it.
const waitTimeout = 60 * time.Second

func suites() []e2e.Recipe { return []e2e.Recipe{e2e.Bookworm(), e2e.Trixie()} }

// requireContainers skips the test unless DCM_E2E=require is set: the test downloads root
// file systems and takes minutes.
func requireContainers(t *testing.T) {
	t.Helper()
	if os.Getenv("DCM_E2E") != "require" {
		t.Skip("end-to-end tests run with DCM_E2E=require, which make test sets")
	}
	if err := e2e.Missing(); err != nil {
		t.Fatal(err)
	}
}

// build compiles one command of this module statically, as in dcm's package.
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

// product contains the files that the tests install in a container.
type product struct {
	agent, sim      string
	packages, newer string // directories of the packages of two versions
}

// buildProduct returns what make product built in the directory DCM_PRODUCT, or builds it.
func buildProduct(t *testing.T) product {
	t.Helper()
	dir := os.Getenv("DCM_PRODUCT")
	if dir == "" {
		dir = t.TempDir()
		cmd := exec.CommandContext(t.Context(), "make", "--directory=../../..", "product", "PRODUCT="+dir)
		if text, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("cannot build the product: %v\n%s", err, text)
		}
	}
	return product{agent: filepath.Join(dir, "agent"), sim: filepath.Join(dir, "dcm-sim"), packages: filepath.Join(dir, "0.1.0"), newer: filepath.Join(dir, "0.1.1")}
}

// buildPackages builds the packages that users get.
func buildPackages(t *testing.T, version string) string {
	t.Helper()
	dir := t.TempDir()
	cmd := exec.CommandContext(t.Context(), "make", "--directory=../../..", "packages", "ARCHES=amd64", "VERSION="+version, "DIST="+dir)
	if text, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("cannot build the packages: %v\n%s", err, text)
	}
	return dir
}

// only returns the only file that matches.
func only(t *testing.T, pattern string) []byte {
	t.Helper()
	files, err := filepath.Glob(pattern)
	if err != nil || len(files) != 1 {
		t.Fatalf("%s matches %q, %v; want one file", pattern, files, err)
	}
	content, err := os.ReadFile(files[0])
	if err != nil {
		t.Fatal(err)
	}
	return content
}
