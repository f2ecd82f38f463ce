package e2e

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"

	"golang.org/x/sys/unix"
)

// Recipe is a root file system of Debian. Equal recipes share one cached copy.
type Recipe struct {
	Suite    string
	Packages []string // in addition to those every root has
	// Backports are packages of the suite's backports.
	Backports []string
	Bare      bool // only Packages: to run a program in it, not to boot it
}

// Bookworm has systemd 252, the one of Enterprise Linux 9.
func Bookworm() Recipe { return Recipe{Suite: "bookworm"} }

// Trixie has systemd 257, and rpm for tests of the other package.
func Trixie() Recipe { return Recipe{Suite: "trixie", Packages: []string{"rpm"}} }

// Forky has the systemd of Debian's testing suite, 262 or later.
func Forky() Recipe { return Recipe{Suite: "forky"} }

// Polkit is trixie with polkit, which authorises users other than root, and with a second
// message bus.
func Polkit() Recipe {
	return Recipe{Suite: "trixie", Packages: []string{"dbus-broker", "polkitd"}}
}

// Monitored is Trixie with Prometheus' node_exporter, and with Prometheus for its
// promtool.
func Monitored() Recipe {
	return Recipe{Suite: "trixie", Packages: []string{"prometheus", "prometheus-node-exporter"}}
}

// OldLibrary has Debian's oldest libamd_smi, of ROCm 6.1.
func OldLibrary() Recipe {
	return Recipe{Suite: "trixie", Packages: []string{"libamd-smi0"}, Bare: true}
}

// NewLibrary has Debian's latest, of ROCm 10.
func NewLibrary() Recipe {
	return Recipe{Suite: "sid", Packages: []string{"libamd-smi27"}, Bare: true}
}

// Ansible has Ansible and its linter. Only make test-ansible uses it.
func Ansible() Recipe {
	return Recipe{Suite: "trixie", Packages: []string{"ansible-core", "ansible-lint", "python3-apt"}}
}

// DNF has Ansible with dnf, rpm and what makes a repository. Only make test-ansible uses it.
func DNF() Recipe {
	return Recipe{Suite: "trixie", Packages: []string{"ansible-core", "createrepo-c", "dnf", "gpg", "gpg-agent", "python3-dnf", "rpm"}}
}

// Slurm is a node with its controller. Only make test-slurm uses it.
func Slurm() Recipe {
	return Recipe{Suite: "trixie", Packages: []string{"iproute2", "munge", "slurm-client", "slurmctld", "slurmd"}}
}

// Page has Cockpit of a Debian release, 287 in bookworm and 337 in trixie, and a browser. Only
// make test-page uses it.
func Page(suite string) Recipe {
	return Recipe{Suite: suite, Packages: []string{
		"chromium", "chromium-driver", "cockpit-bridge", "cockpit-system", "cockpit-ws", "curl", "fonts-dejavu-core", "polkitd", "rpm", "sudo",
	}}
}

// Podman has podman of a Debian release, and a static program for an image. bookworm has runc:
// its crun raises a limit to load device programs, which fails in a container.
func Podman(suite string) Recipe {
	runtime := map[string]string{"bookworm": "runc", "trixie": "crun"}[suite]
	return Recipe{Suite: suite, Packages: []string{"busybox-static", "podman", runtime}}
}

// Balanced has a load balancer, for the recipes of dcm-partitions(7).
func Balanced(suite string) Recipe { return Recipe{Suite: suite, Packages: []string{"haproxy"}} }

// Entered has the programs that commands of the documents call, next to dcm.
func Entered() Recipe { return Recipe{Suite: "trixie", Packages: []string{"jq", "sudo"}} }

// Shell is the root of the node in which a person tries dcm: it can show the manual.
func Shell() Recipe { return Recipe{Suite: "trixie", Packages: []string{"less", "man-db"}} }

// Recipes returns the recipes of make test in the order of their use.
func Recipes() []Recipe {
	return []Recipe{Trixie(), Bookworm(), Polkit(), OldLibrary(), NewLibrary(), Monitored(), Podman("bookworm"), Podman("trixie"), Balanced("bookworm"), Balanced("trixie"), Entered()}
}

// Dependencies returns the dependencies of dcm's package. A root has only these, the essential
// packages, and what a container needs to boot. So a missing dependency makes a test fail.
func Dependencies() []string { return []string{"default-dbus-system-bus", "kmod", "libc6", "systemd"} }

// CacheDir returns the directory that keeps the roots between runs.
func CacheDir() string {
	if dir := os.Getenv("DCM_TEST_CACHE"); dir != "" {
		return dir
	}
	return "/var/cache/dcm-test"
}

func (r Recipe) arguments() []string {
	packages := slices.Clone(r.Packages)
	if !r.Bare {
		packages = append(packages, "systemd-sysv")
		packages = append(packages, Dependencies()...)
	}
	slices.Sort(packages)
	var hooks []string
	if len(r.Backports) > 0 {
		// Backports come from the same mirror as the suite.
		hooks = append(hooks, `--setup-hook=sed -n "s/ `+r.Suite+` / `+r.Suite+`-backports /p" "$1"/etc/apt/sources.list >"$1"/etc/apt/sources.list.d/backports.list`)
		for _, p := range r.Backports {
			packages = append(packages, p+"/"+r.Suite+"-backports")
		}
	}
	return append(hooks, []string{
		"--mode=root", "--variant=minbase", "--format=directory", "--quiet",
		"--include=" + strings.Join(packages, ","),
		// A mirror may be a snapshot with an expired Valid-Until.
		`--aptopt=Acquire::Check-Valid-Until "false"`,
		`--dpkgopt=force-unsafe-io`,
		`--dpkgopt=path-exclude=/usr/share/locale/*`,
		// Timers would add start jobs that no test expects.
		`--customize-hook=rm -f "$1"/etc/systemd/system/timers.target.wants/*`,
		`--customize-hook=rm -f "$1"/etc/systemd/system/getty.target.wants/*`,
		`--customize-hook=rm -f "$1"/etc/machine-id "$1"/etc/hostname`,
	}...)
}

func (r Recipe) place() string {
	sum := sha256.Sum256([]byte(strings.Join(r.arguments(), "\n")))
	return filepath.Join(CacheDir(), r.Suite+"-"+hex.EncodeToString(sum[:6]))
}

// Directory returns the root's directory in the cache, and makes it if necessary, which takes
// half a minute with a fast mirror. The directory is read-only by convention.
func (r Recipe) Directory(ctx context.Context, log io.Writer) (string, error) {
	dir := r.place()
	if err := os.MkdirAll(CacheDir(), 0o755); err != nil {
		return "", fmt.Errorf("cannot cache the root %s: %w", r.Suite, err)
	}
	unlock, err := Lock(dir + ".lock")
	if err != nil {
		return "", fmt.Errorf("cannot cache the root %s: %w", r.Suite, err)
	}
	defer unlock()
	if _, err := os.Stat(dir); !errors.Is(err, fs.ErrNotExist) {
		return dir, err
	}
	fmt.Fprintf(log, "making a root of Debian %s in %s\n", r.Suite, dir)
	if err := r.build(ctx, dir, log); err != nil {
		return "", fmt.Errorf("cannot make the root %s: %w", r.Suite, err)
	}
	return dir, nil
}

func (r Recipe) build(ctx context.Context, dir string, log io.Writer) error {
	partial := dir + ".partial"
	if err := os.RemoveAll(partial); err != nil {
		return err
	}
	cmd := exec.CommandContext(ctx, "mmdebstrap", append(r.arguments(), r.Suite, partial)...)
	cmd.Stdout, cmd.Stderr = log, log
	if err := cmd.Run(); err != nil {
		return errors.Join(fmt.Errorf("mmdebstrap: %w", err), os.RemoveAll(partial))
	}
	return os.Rename(partial, dir)
}

// Lock locks a file of the cache, so that two test processes do not make the same entry. It
// returns the function that releases the lock.
func Lock(path string) (func() error, error) {
	f, err := os.OpenFile(path, os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return nil, err
	}
	if err := unix.Flock(int(f.Fd()), unix.LOCK_EX); err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return f.Close, nil
}
