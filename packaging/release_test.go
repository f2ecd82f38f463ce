package packaging_test

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"dcm/internal/testkit/examples"
)

// repository is a clone of the checkout with an OpenPGP key of its own.
type repository struct {
	t   *testing.T
	dir string
	env []string
}

func cloneRepository(t *testing.T) repository {
	t.Helper()
	need(t, "git")
	need(t, "gpg")
	if err := exec.Command("git", "-c", "safe.directory=*", "-C", "..", "rev-parse", "HEAD").Run(); err != nil {
		t.Skip("the tree has no git history")
	}
	r := repository{t: t, dir: filepath.Join(t.TempDir(), "dcm")}
	// gpg's agent listens on a socket in this directory, whose path may have 107 bytes.
	keyring, err := os.MkdirTemp("", "gpg")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		r.run("gpgconf --kill all")
		os.RemoveAll(keyring)
	})
	r.env = append(os.Environ(), "GNUPGHOME="+keyring, "GIT_CONFIG_GLOBAL=/dev/null", "GIT_CONFIG_COUNT=3",
		"GIT_CONFIG_KEY_0=user.name", "GIT_CONFIG_VALUE_0=test", "GIT_CONFIG_KEY_1=user.email", "GIT_CONFIG_VALUE_1=test@dcm.example",
		"GIT_CONFIG_KEY_2=safe.directory", "GIT_CONFIG_VALUE_2=*")
	origin, err := filepath.Abs("..")
	if err != nil {
		t.Fatal(err)
	}
	clone := exec.Command("git", "clone", "--quiet", "--no-tags", origin, r.dir)
	clone.Env = r.env
	if out, err := clone.CombinedOutput(); err != nil {
		t.Fatalf("git clone: %v\n%s", err, out)
	}
	return r
}

// try runs a shell command in the clone.
func (r repository) try(command string) (string, error) {
	cmd := exec.Command("sh", "-euc", command)
	cmd.Dir, cmd.Env = r.dir, r.env
	out, err := cmd.CombinedOutput()
	return string(out), err
}

func (r repository) run(command string) string {
	r.t.Helper()
	out, err := r.try(command)
	if err != nil {
		r.t.Fatalf("%s: %v\n%s", command, err, out)
	}
	return out
}

// refused checks that the release fails with this message.
func (r repository) refused(command, message string) {
	r.t.Helper()
	if out, err := r.try(command); err == nil || !strings.Contains(out, "release: "+message) {
		r.t.Errorf("%s: got %v, %q, want failure with %q", command, err, out, message)
	}
}

// fillIn writes a publisher of the test.
const fillIn = `cat >packaging/publisher <<'END'
NAME="Ada Example"
EMAIL=ada@publisher.example
REPOSITORY=https://publisher.example/dcm.git
END
`

const release = "KEY=test@dcm.example packaging/release.sh "

func TestRelease_Preconditions(t *testing.T) {
	r := cloneRepository(t)
	r.refused("KEY= packaging/release.sh", "KEY is not set")
	r.refused(release, "KEY: no secret key test@dcm.example")
	r.run("gpg --batch --quiet --passphrase '' --quick-generate-key test@dcm.example ed25519 sign never")
	r.refused(release, "HEAD has no tag")
	r.run("git tag v77.0.0 && echo >>README.md")
	r.refused(release, "the tree has changes that are not committed")
	r.run("git checkout --quiet README.md")
	r.refused(release, `CHANGELOG.md: first section: found "## Unreleased", want "## 77.0.0 - YYYY-MM-DD"`)
	r.run("sed -i 's/^## Unreleased$/## 77.0.0 - 2077-07-07/' CHANGELOG.md && git commit --quiet --all --message=77 && git tag --force v77.0.0")
	for _, key := range []string{"NAME", "EMAIL", "REPOSITORY"} {
		r.run(fillIn + fmt.Sprintf("sed -i 's/^%s=.*/%s=/' packaging/publisher && git commit --quiet --all --message=%s && git tag --force v77.0.0", key, key, key))
		r.refused(release, "packaging/publisher: "+key+" is empty")
	}
	if out := r.run("git status --porcelain --ignored"); out != "" {
		t.Errorf("files after refused releases: got %q, want none", out)
	}
}

func TestRelease(t *testing.T) {
	if os.Getenv("DCM_RELEASE") == "" {
		t.Skip("builds all packages twice: run make test-release")
	}
	r := cloneRepository(t)
	r.run("gpg --batch --quiet --passphrase '' --quick-generate-key test@dcm.example ed25519 sign never")
	r.run(fillIn + "sed -i 's/^## Unreleased$/## 77.0.0 - 2077-07-07/' CHANGELOG.md && git commit --quiet --all --message=77 && git tag v77.0.0")
	t.Log(r.run(release + "dist/release"))
	out := strings.Fields(r.run("cd dist/release && ls *.deb *.rpm"))
	for _, want := range []string{"dcm_77.0.0-1_amd64.deb", "dcm_77.0.0-1_arm64.deb", "dcm-77.0.0-1.x86_64.rpm", "dcm-77.0.0-1.aarch64.rpm", "cockpit-dcm_77.0.0-1_all.deb", "cockpit-dcm-77.0.0-1.noarch.rpm"} {
		if !strings.Contains(strings.Join(out, "\n"), want) {
			t.Errorf("packages: got %q, want %s among them", out, want)
		}
	}
	for field, want := range map[string]string{"Maintainer": "Ada Example <ada@publisher.example>", "Homepage": "https://publisher.example/dcm.git"} {
		if got := strings.TrimSpace(r.run("dpkg-deb --field dist/release/dcm_77.0.0-1_amd64.deb " + field)); got != want {
			t.Errorf("%s of the DEB: got %q, want %q", field, got, want)
		}
	}
	r.run("cd dist/release && gpg --batch --verify SHA256SUMS.asc SHA256SUMS && sha256sum --strict --check SHA256SUMS")
	for _, command := range printed(t, "SECURITY.md", "Verify a release") {
		t.Log(r.run("cd dist/release && " + command))
	}
	for _, program := range []string{"dcm", "dcm-service", "dcm-smi", "dcm-nvml", "dcm-guard"} {
		r.run("grep -q pkg:golang/golang.org/x/sys dist/release/sbom/" + program + "_amd64.cdx.json dist/release/sbom/" + program + "_arm64.cdx.json")
	}
	if out, err := r.try("cd dist/release && echo >>dcm_77.0.0-1_amd64.deb && sha256sum --check SHA256SUMS"); err == nil {
		t.Errorf("a changed package passes the check: %s", out)
	}
}

// printed returns the commands of a section as a document prints them.
func printed(t *testing.T, file, section string) []string {
	t.Helper()
	found, err := examples.Markdown(file, read(t, file))
	if err != nil {
		t.Fatal(err)
	}
	var out []string
	for _, e := range found {
		commands, err := e.Commands()
		if err != nil {
			t.Fatal(err)
		}
		for _, c := range commands {
			if e.Section == section && !e.Inline {
				out = append(out, c.Text)
			}
		}
	}
	if len(out) == 0 {
		t.Fatalf("%s: no command in the section %s", file, section)
	}
	return out
}
