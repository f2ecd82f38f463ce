package vm

import (
	"context"
	"crypto/sha256"
	_ "embed"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"

	"golang.org/x/sys/unix"

	"dcm/internal/testkit/e2e"
)

//go:embed disk.sh
var diskScript string

//go:embed agent.service
var agentUnit []byte

// Disk is a directory of the cache with the files that machines boot from: kernel, initrd, disk.raw, and
// saved machines.
type Disk struct {
	guest Guest
	dir   string
	inUse *os.File
}

func (d *Disk) path(name string) string { return filepath.Join(d.dir, name) }

// Close allows another process to remove the disk from the cache.
func (d *Disk) Close() error { return d.inUse.Close() }

// Product contains the programs that are installed on a disk.
type Product struct {
	Package string // dcm's DEB
	Agent   string // the static program of e2e/agent
	Seed    e2e.Seed
}

// OpenDisk returns the disk with the product. The disk and its parts come from the cache of package e2e. A
// new disk replaces unused ones of the same guest, since each version of the package needs a new disk.
func OpenDisk(ctx context.Context, g Guest, p Product, log io.Writer) (*Disk, error) {
	fail := func(err error) (*Disk, error) {
		return nil, fmt.Errorf("cannot make a disk of %s: %w", g.Name, err)
	}
	root, err := g.root(ctx, log)
	if err != nil {
		return fail(err)
	}
	modules, err := buildModules(ctx, root, log)
	if err != nil {
		return fail(err)
	}
	files, err := p.seed()
	if err != nil {
		return fail(err)
	}
	key, err := diskKey(modules, p.Package, files)
	if err != nil {
		return fail(err)
	}
	prefix := filepath.Join(e2e.CacheDir(), "vm-"+g.Name)
	unlock, err := e2e.Lock(prefix + ".lock")
	if err != nil {
		return fail(err)
	}
	defer unlock()
	dir := prefix + "-" + key
	_, err = os.Stat(dir)
	if errors.Is(err, fs.ErrNotExist) {
		if err = removeUnused(prefix + "-*"); err == nil {
			fmt.Fprintf(log, "making the disk %s\n", dir)
			err = makeDisk(ctx, log, dir, root, modules, files, p.Package)
		}
	}
	if err != nil {
		return fail(err)
	}
	inUse, err := lockUse(dir, unix.LOCK_SH)
	if err != nil {
		return fail(err)
	}
	return &Disk{g, dir, inUse}, nil
}

// diskKey returns a name for a disk, from its contents and the version of QEMU that saves and restores
// machines on it.
func diskKey(modules, deb string, files e2e.Seed) (string, error) {
	sum := sha256.New()
	content, err := os.ReadFile(deb)
	if err != nil {
		return "", err
	}
	sum.Write(content)
	version, err := exec.Command("qemu-system-x86_64", "--version").Output()
	if err != nil {
		return "", err
	}
	fmt.Fprintln(sum, modules, diskScript, string(version))
	if err := json.NewEncoder(sum).Encode(files); err != nil {
		return "", err
	}
	return hex.EncodeToString(sum.Sum(nil)[:6]), nil
}

func makeDisk(ctx context.Context, log io.Writer, dir string, root layers, modules string, files e2e.Seed, deb string) error {
	partial := dir + ".partial"
	seed, mounts := filepath.Join(partial, "seed"), filepath.Join(partial, "mounts")
	err := errors.Join(os.RemoveAll(partial), os.Mkdir(partial, 0o700), os.Mkdir(mounts, 0o700))
	if err == nil {
		err = files.Write(seed)
	}
	if err == nil {
		err = script(ctx, log, diskScript, root.String(), modules, seed, deb, partial, mounts)
	}
	if err != nil {
		return errors.Join(err, os.RemoveAll(partial))
	}
	if err := errors.Join(os.RemoveAll(seed), os.RemoveAll(mounts)); err != nil {
		return err
	}
	return os.Rename(partial, dir)
}

// lockUse locks the file of a disk's directory that shows whether a process uses the disk.
func lockUse(dir string, how int) (*os.File, error) {
	f, err := os.OpenFile(filepath.Join(dir, "in-use"), os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return nil, err
	}
	if err := unix.Flock(int(f.Fd()), how); err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return f, nil
}

func removeUnused(pattern string) error {
	dirs, err := filepath.Glob(pattern)
	for _, dir := range dirs {
		f, used := lockUse(dir, unix.LOCK_EX|unix.LOCK_NB)
		if errors.Is(used, unix.EWOULDBLOCK) {
			continue
		}
		err = errors.Join(err, used, os.RemoveAll(dir))
		if f != nil {
			err = errors.Join(err, f.Close())
		}
	}
	return err
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
