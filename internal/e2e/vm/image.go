package vm

import (
	"context"
	"crypto/sha256"
	"embed"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"

	"dcm/internal/e2e"
)

//go:embed kmod
var sources embed.FS

//go:embed modules.sh
var modulesScript string

//go:embed disk.sh
var diskScript string

//go:embed agent.service
var agentUnit []byte

// Guest is a Debian release, of which a virtual machine has the kernel.
type Guest struct {
	Name   string
	recipe e2e.Recipe
}

// Guests are the kernels that the tests run on, by name.
func Guests() map[string]Guest {
	packages := []string{
		"busybox-static", "dbus", "iproute2", "linux-headers-amd64", "linux-image-amd64", "make", "polkitd", "procps", "udev",
	}
	return map[string]Guest{
		"bookworm": {"bookworm", e2e.Recipe{Suite: "bookworm", Packages: packages}},
		"trixie":   {"trixie", e2e.Recipe{Suite: "trixie", Packages: packages}},
	}
}

// Missing returns why no virtual machine can run here, or nil.
func Missing() error {
	if os.Geteuid() != 0 {
		return errors.New("virtual machines' disks are made as root")
	}
	for _, tool := range []string{"qemu-system-x86_64", "qemu-img", "mmdebstrap", "mke2fs", "cpio", "mount"} {
		if _, err := exec.LookPath(tool); err != nil {
			return fmt.Errorf("virtual machines need %s", tool)
		}
	}
	return nil
}

// Disk is a directory with what machines boot from: kernel, initrd, disk.raw.
type Disk struct{ dir string }

func (d Disk) path(name string) string { return filepath.Join(d.dir, name) }

// Product is what is installed on a disk.
type Product struct {
	Package string // dcm's DEB
	Agent   string // the static program of e2e/agent
	Seed    e2e.Seed
}

// NewDisk makes a disk with the product in the directory. The root file system and the
// modules come from the cache of package e2e.
func NewDisk(ctx context.Context, g Guest, p Product, dir string, log io.Writer) (Disk, error) {
	fail := func(err error) (Disk, error) {
		return Disk{}, fmt.Errorf("cannot make a disk of %s: %w", g.Name, err)
	}
	root, err := g.recipe.Directory(ctx, log)
	if err != nil {
		return fail(err)
	}
	modules, err := buildModules(ctx, root, log)
	if err != nil {
		return fail(err)
	}
	work, err := os.MkdirTemp(dir, "work-")
	if err != nil {
		return fail(err)
	}
	seed := filepath.Join(work, "seed")
	mounts := filepath.Join(work, "mounts")
	if err := os.Mkdir(mounts, 0o700); err != nil {
		return fail(err)
	}
	files, err := p.seed()
	if err != nil {
		return fail(err)
	}
	if err := files.Write(seed); err != nil {
		return fail(err)
	}
	if err := script(ctx, log, diskScript, root, modules, seed, p.Package, dir, mounts); err != nil {
		return fail(err)
	}
	return Disk{dir}, os.RemoveAll(work)
}

func (p Product) seed() (e2e.Seed, error) {
	agent, err := os.ReadFile(p.Agent)
	if err != nil {
		return nil, err
	}
	all := e2e.Seed{
		"/etc/machine-id":                                            {Content: []byte("5e1f7e57000000000000000000000000\n")},
		"/usr/local/bin/e2e-agent":                                   {Content: agent, Mode: 0o755},
		"/etc/systemd/system/e2e-agent.service":                      {Content: agentUnit},
		"/etc/systemd/system/sysinit.target.wants/e2e-agent.service": {Link: "../e2e-agent.service"},
	}
	for path, f := range p.Seed {
		all[path] = f
	}
	return all, nil
}

// buildModules returns a directory of the cache with the kernel modules for the kernel of
// the root.
func buildModules(ctx context.Context, root string, log io.Writer) (string, error) {
	sum := sha256.New()
	fmt.Fprintln(sum, root, modulesScript)
	dir, err := os.MkdirTemp("", "kmod-")
	if err != nil {
		return "", err
	}
	defer os.RemoveAll(dir)
	code, mounts := filepath.Join(dir, "kmod"), filepath.Join(dir, "mounts")
	for _, d := range []string{code, mounts} {
		if err := os.Mkdir(d, 0o755); err != nil {
			return "", err
		}
	}
	err = fs.WalkDir(sources, "kmod", func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		content, err := sources.ReadFile(path)
		if err != nil {
			return err
		}
		fmt.Fprintln(sum, path, len(content))
		sum.Write(content)
		return os.WriteFile(filepath.Join(code, filepath.Base(path)), content, 0o644)
	})
	if err != nil {
		return "", err
	}
	out := root + "-kmod-" + hex.EncodeToString(sum.Sum(nil)[:6])
	unlock, err := e2e.Lock(out + ".lock")
	if err != nil {
		return "", err
	}
	defer unlock()
	if _, err := os.Stat(out); !errors.Is(err, fs.ErrNotExist) {
		return out, err
	}
	fmt.Fprintf(log, "building kernel modules in %s\n", out)
	partial := out + ".partial"
	if err := errors.Join(os.RemoveAll(partial), os.Mkdir(partial, 0o755)); err != nil {
		return "", err
	}
	if err := script(ctx, log, modulesScript, root, code, partial, mounts); err != nil {
		return "", errors.Join(fmt.Errorf("cannot build the kernel modules: %w", err), os.RemoveAll(partial))
	}
	return out, os.Rename(partial, out)
}

// script runs a shell script in a mount namespace of its own, so that its mounts end
// with it.
func script(ctx context.Context, log io.Writer, text string, args ...string) error {
	cmd := exec.CommandContext(ctx, "sh", append([]string{"-c", text, "sh"}, args...)...)
	cmd.Stdout, cmd.Stderr = log, log
	cmd.SysProcAttr = &syscall.SysProcAttr{Unshareflags: syscall.CLONE_NEWNS}
	return cmd.Run()
}

// Boot boots a machine from the disk, cold, and returns when it is up.
func (d Disk) Boot(ctx context.Context, o Options) (*Machine, error) {
	m, err := d.machine(o)
	if err != nil {
		return nil, err
	}
	if err := run("qemu-img", "create", "-q", "-f", "qcow2", "-F", "raw", "-b", d.path("disk.raw"), m.path("disk.qcow2")); err != nil {
		return nil, errors.Join(err, m.Close())
	}
	if err := m.PowerOn(ctx); err != nil {
		return nil, errors.Join(err, m.Close())
	}
	return m, nil
}

// Image is a booted machine, saved.
type Image struct {
	disk    Disk
	options Options
	file    string // a QCOW2 file with disk and snapshot
}

// bootAttempts is how often a boot is tried: on some hosts a guest's kernel panics in one
// of fifteen boots, when it changes its own code under multi-threaded emulation.
const bootAttempts = 3

// Save boots a machine from the disk and saves its state. prepare, which may be nil, runs
// in it before.
func (d Disk) Save(ctx context.Context, o Options, prepare func(*Machine) error) (*Image, error) {
	m, err := d.bootWithRetry(ctx, o)
	if err != nil {
		return nil, err
	}
	defer m.Close()
	if prepare != nil {
		if err := prepare(m); err != nil {
			return nil, err
		}
	}
	for _, line := range []string{"stop", "savevm " + snapshot} {
		if err := m.running.monitor.human(line); err != nil {
			return nil, err
		}
	}
	if err := m.running.stop(); err != nil {
		return nil, err
	}
	i := &Image{d, o, d.path(fmt.Sprintf("ready-%d.qcow2", o.GPUs))}
	return i, os.Rename(m.path("disk.qcow2"), i.file)
}

func (d Disk) bootWithRetry(ctx context.Context, o Options) (*Machine, error) {
	var errs []error
	for range bootAttempts {
		m, err := d.Boot(ctx, o)
		if err == nil {
			return m, nil
		}
		errs = append(errs, err)
		if ctx.Err() != nil {
			break
		}
	}
	return nil, errors.Join(errs...)
}

// Restore starts a machine from the saved state.
func (i *Image) Restore() (*Machine, error) {
	m, err := i.disk.machine(i.options)
	if err != nil {
		return nil, err
	}
	if err := run("cp", "--sparse=always", "--reflink=auto", i.file, m.path("disk.qcow2")); err != nil {
		return nil, errors.Join(err, m.Close())
	}
	if err := m.start(true); err != nil {
		return nil, errors.Join(err, m.Close())
	}
	return m, nil
}

func (d Disk) machine(o Options) (*Machine, error) {
	dir, err := os.MkdirTemp(d.dir, "machine-")
	if err != nil {
		return nil, err
	}
	return &Machine{dir: dir, disk: d, options: o}, nil
}

func run(argv ...string) error {
	if out, err := exec.Command(argv[0], argv[1:]...).CombinedOutput(); err != nil {
		return fmt.Errorf("%s: %w\n%s", argv[0], err, out)
	}
	return nil
}
