package vm

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"

	"dcm/internal/testkit/e2e"
)

// Boot boots a machine from the disk without a saved state, and returns when it is up.
func (d *Disk) Boot(ctx context.Context, o Options) (*Machine, error) {
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

// Image is the saved state of a booted machine.
type Image struct {
	disk    *Disk
	options Options
	file    string // a QCOW2 file with disk and snapshot
}

// Image returns a booted machine, which is saved next to the disk the first time.
func (d *Disk) Image(ctx context.Context, o Options) (*Image, error) {
	sum := sha256.Sum256(fmt.Append(nil, (&Machine{disk: d, options: o}).arguments(false)))
	i := &Image{d, o, d.path("booted-" + hex.EncodeToString(sum[:6]) + ".qcow2")}
	unlock, err := e2e.Lock(i.file + ".lock")
	if err != nil {
		return nil, err
	}
	defer unlock()
	if _, err := os.Stat(i.file); !errors.Is(err, fs.ErrNotExist) {
		return i, err
	}
	m, err := d.Boot(ctx, o)
	if err != nil {
		return nil, err
	}
	for _, line := range []string{"stop", "savevm " + snapshot} {
		if err := m.running.monitor.human(line); err != nil {
			return nil, errors.Join(err, m.Close())
		}
	}
	if err := m.running.stop(); err != nil {
		return nil, errors.Join(err, m.Close())
	}
	return i, errors.Join(run("mv", m.path("disk.qcow2"), i.file), m.Close())
}

// Restore starts a machine from the saved state.
func (i *Image) Restore() (*Machine, error) { return i.restore(false) }

// RestoreOnTerminal is Restore with the machine's serial line on this process's terminal.
func (i *Image) RestoreOnTerminal() (*Machine, error) { return i.restore(true) }

func (i *Image) restore(console bool) (*Machine, error) {
	m, err := i.disk.machine(i.options)
	if err != nil {
		return nil, err
	}
	m.console = console
	if err := run("cp", "--sparse=always", "--reflink=auto", i.file, m.path("disk.qcow2")); err != nil {
		return nil, errors.Join(err, m.Close())
	}
	if err := m.start(true); err != nil {
		return nil, errors.Join(err, m.Close())
	}
	return m, nil
}

// machine returns a machine that does not run yet.
func (d *Disk) machine(o Options) (*Machine, error) {
	dir, release, err := e2e.Scratch(e2e.Large)
	if err != nil {
		return nil, err
	}
	return &Machine{dir: dir, release: release, disk: d, options: o}, nil
}

func run(argv ...string) error {
	if out, err := exec.Command(argv[0], argv[1:]...).CombinedOutput(); err != nil {
		return fmt.Errorf("%s: %w\n%s", argv[0], err, out)
	}
	return nil
}
