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
	Bare      bool // Packages only: for running a program in it, not for booting it
}

// Bookworm has systemd 252, the one of Enterprise Linux 9.
func Bookworm() Recipe { return Recipe{Suite: "bookworm"} }

// Trixie has systemd 257, and rpm to try the other package with.
func Trixie() Recipe { return Recipe{Suite: "trixie", Packages: []string{"rpm"}} }

// Polkit is a desktop's or a larger server's trixie, where others than root may be
// authorised, with the other message bus to change over to.
func Polkit() Recipe {
	return Recipe{Suite: "trixie", Packages: []string{"dbus-broker", "polkitd"}}
}

// Monitored is Trixie with Prometheus' node_exporter, and with Prometheus for its
// promtool.
func Monitored() Recipe {
	return Recipe{Suite: "trixie", Packages: []string{"prometheus", "prometheus-node-exporter"}}
}

// OldLibrary has Debian's first libamd_smi, of ROCm 6.1.
func OldLibrary() Recipe {
	return Recipe{Suite: "trixie", Packages: []string{"libamd-smi0"}, Bare: true}
}

// NewLibrary has Debian's latest, of ROCm 10.
func NewLibrary() Recipe {
	return Recipe{Suite: "sid", Packages: []string{"libamd-smi27"}, Bare: true}
}

// Ansible has Ansible and its linter. It is not among [Recipes]: make test-ansible alone
// uses it.
func Ansible() Recipe {
	return Recipe{Suite: "trixie", Packages: []string{"ansible-core", "ansible-lint", "python3-apt"}}
}

// Slurm is a node and its controller in one. It is not among [Recipes]: make test-slurm
// alone uses it.
func Slurm() Recipe {
	return Recipe{Suite: "trixie", Packages: []string{"iproute2", "munge", "slurm-client", "slurmctld", "slurmd"}}
}

// Page has Cockpit, and a browser to look at it with. It is not among [Recipes]: make
// test-page alone uses it.
func Page() Recipe {
	return Recipe{Suite: "trixie", Packages: []string{
		"chromium", "chromium-driver", "cockpit-bridge", "cockpit-system", "cockpit-ws", "curl", "fonts-dejavu-core", "polkitd", "rpm", "sudo",
	}}
}

// Podman is a host of containers: podman of that Debian, and a program without libraries
// to make an image of. bookworm's crun wants a limit raised for device programs, which a
// container may not; runc does without.
func Podman(suite string) Recipe {
	runtime := map[string]string{"bookworm": "runc", "trixie": "crun"}[suite]
	return Recipe{Suite: suite, Packages: []string{"busybox-static", "podman", runtime}}
}

// Recipes are those of make test, those first that are used first.
func Recipes() []Recipe {
	return []Recipe{Trixie(), Bookworm(), Polkit(), OldLibrary(), NewLibrary(), Monitored(), Podman("bookworm"), Podman("trixie")}
}

// Dependencies are those of dcm's package. In addition, a root has what every Debian
// has and what a container needs to boot, so that a program which the package uses
// and does not depend on is missed.
func Dependencies() []string { return []string{"default-dbus-system-bus", "kmod", "libc6", "systemd"} }

// CacheDir is where the roots are kept between runs.
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
		// From the same mirror as everything else.
		hooks = append(hooks, `--setup-hook=sed -n "s/ `+r.Suite+` / `+r.Suite+`-backports /p" "$1"/etc/apt/sources.list >"$1"/etc/apt/sources.list.d/backports.list`)
		for _, p := range r.Backports {
			packages = append(packages, p+"/"+r.Suite+"-backports")
		}
	}
	return append(hooks, []string{
		"--mode=root", "--variant=minbase", "--format=directory", "--quiet",
		"--include=" + strings.Join(packages, ","),
		// A mirror's snapshot is older than its own validity allows.
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

// Directory returns the root's place in the cache, and makes the root if it is
// not there yet: half a minute with a fast mirror. It must not be written to.
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

// Lock takes the lock of a file of the cache, so that two test processes do not make the
// same one, and returns the function that releases it.
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
