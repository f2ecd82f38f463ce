package real_test

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"testing"

	"dcm/cmd/dcm-kubernetes/internal/vendor"
)

// Versions of the programs. The staging modules of Kubernetes have the same minor version.
const (
	kubernetes = "1.36.3"
	etcd       = "v3.6.8"
	helm3      = "v3.22.0"
)

// part is a program that is built from Go modules.
type part struct{ name, pkg, module string }

func parts() []part {
	return []part{
		{"etcd", "go.etcd.io/etcd/server/v3", "go.etcd.io/etcd/server/v3@" + etcd},
		{"kube-apiserver", "k8s.io/kubernetes/cmd/kube-apiserver", "k8s.io/kubernetes@v" + kubernetes},
		{"kube-controller-manager", "k8s.io/kubernetes/cmd/kube-controller-manager", "k8s.io/kubernetes@v" + kubernetes},
		{"kubectl", "k8s.io/kubernetes/cmd/kubectl", "k8s.io/kubernetes@v" + kubernetes},
		{"helm", "helm.sh/helm/v3/cmd/helm", "helm.sh/helm/v3@" + helm3},
	}
}

// cache is the directory of the built programs, since a build takes minutes.
func cache() string {
	dir := os.Getenv("DCM_TEST_CACHE")
	if dir == "" {
		dir = "/var/cache/dcm-test"
	}
	return filepath.Join(dir, "kubernetes-"+kubernetes)
}

// controlPlane is the programs of a control plane.
var controlPlane = []string{"etcd", "kube-apiserver", "kube-controller-manager", "kubectl"}

// made builds the programs of these names that are missing, and returns their directory.
func made(t *testing.T, names ...string) string {
	t.Helper()
	dir := cache()
	if err := os.MkdirAll(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	lock, err := os.OpenFile(dir+".lock", os.O_CREATE|os.O_RDWR, 0o644)
	if err != nil {
		t.Fatal(err)
	}
	defer lock.Close()
	if err := syscall.Flock(int(lock.Fd()), syscall.LOCK_EX); err != nil {
		t.Fatal(err)
	}
	for _, p := range parts() {
		if !slices.Contains(names, p.name) {
			continue
		}
		if _, err := os.Stat(filepath.Join(dir, p.name)); err == nil {
			continue
		}
		t.Logf("building %s, which takes minutes", p.name)
		if err := p.make(t.Context(), t.TempDir(), dir); err != nil {
			t.Fatalf("cannot build %s: %v", p.name, err)
		}
	}
	return dir
}

// make builds the program in a new module. In the module of Kubernetes, the staging modules have
// version v0.0.0, which is replaced here by their published version.
func (p part) make(ctx context.Context, work, dir string) error {
	name, version, _ := strings.Cut(p.module, "@")
	text := fmt.Sprintf("module part\n\ngo 1.26.0\n\nrequire %s %s\n", name, version)
	if name == "k8s.io/kubernetes" {
		staging, err := staging(ctx, p.module)
		if err != nil {
			return err
		}
		for _, m := range staging {
			text += fmt.Sprintf("replace %s => %s v0.%s\n", m, m, strings.TrimPrefix(kubernetes, "1."))
		}
	}
	if err := os.WriteFile(filepath.Join(work, "go.mod"), []byte(text), 0o644); err != nil {
		return err
	}
	made := filepath.Join(work, p.name)
	flags := "-s -w -X k8s.io/component-base/version.gitVersion=v" + kubernetes
	cmd := exec.CommandContext(ctx, "go", "build", "-mod=mod", "-trimpath", "-buildvcs=false", "-ldflags", flags, "-o", made, p.pkg)
	cmd.Dir = work
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("%w\n%s", err, out)
	}
	program, err := os.ReadFile(made)
	if err != nil {
		return err
	}
	if err := os.WriteFile(filepath.Join(dir, p.name+".new"), program, 0o755); err != nil {
		return err
	}
	return os.Rename(filepath.Join(dir, p.name+".new"), filepath.Join(dir, p.name))
}

func staging(ctx context.Context, module string) ([]string, error) {
	out, err := exec.CommandContext(ctx, "go", "mod", "download", "-json", module).Output()
	if err != nil {
		return nil, err
	}
	var m struct{ GoMod string }
	if err := json.Unmarshal(out, &m); err != nil {
		return nil, err
	}
	text, err := os.ReadFile(m.GoMod)
	if err != nil {
		return nil, err
	}
	var names []string
	for _, found := range regexp.MustCompile(`(?m)^\s+(k8s\.io/\S+) v0\.0\.0$`).FindAllSubmatch(text, -1) {
		names = append(names, string(found[1]))
	}
	return names, nil
}

// The agent logs the versions of the programs that these tests run.
func TestParts_AreTheTestedVersions(t *testing.T) {
	for _, want := range []vendor.Software{{Name: "Kubernetes", Version: kubernetes, Real: true}, {Name: "Helm", Version: strings.TrimPrefix(helm3, "v"), Real: true}} {
		if !slices.Contains(vendor.Tested(), want) {
			t.Errorf("the tested versions are %s, want %s %s", vendor.Versions(), want.Name, want.Version)
		}
	}
}
