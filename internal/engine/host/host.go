// Package host opens the parts of one host: the files below one root directory, the GPUs with the
// vendors' libraries that the configuration names, systemd, and the identity of callers.
//
// It decides nothing and prints nothing. It must not import daemon, leases, frontends or
// app.
package host

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"dcm/internal/engine/config"
	"dcm/internal/engine/config/selection"
	"dcm/internal/linux/systemd"
	"dcm/internal/sanitize"
)

// Host is a machine, or a tree of files that looks like one.
type Host struct {
	Root    string // "/" but for tests and for looking at another tree
	Version string // of this program
}

// Here tells whether this is the running host: of another tree there is nobody to
// ask, and nothing but its files to change.
func (h *Host) Here() bool { return h.Root == "/" }

func (h *Host) Path(elem ...string) string {
	return filepath.Join(append([]string{h.Root}, elem...)...)
}

// Runtime is the directory of reports, locks and the until-reboot selection.
func (h *Host) Runtime() string { return h.Path("run/dcm") }

// RunLock is the file that a run holds a lock on.
func (h *Host) RunLock() string { return h.Path("run/dcm/apply.lock") }

// LeasesLock is the file that is locked while a lease is given, and over a run.
func (h *Host) LeasesLock() string { return h.Path("run/dcm/leases.lock") }

// GuardOff is the file that keeps the guard out of the kernel until the next boot.
func (h *Host) GuardOff() string { return h.Path("run/dcm/guard.off") }

// Config is the configuration of every layer together.
func (h *Host) Config() (*config.Config, error) {
	return config.Load(config.DefaultPaths(h.Root))
}

// Effective is Config, or where that cannot be used what the daemon has handed on, beside
// the reason.
func (h *Host) Effective() (*config.Config, error) {
	cfg, broken, err := selection.Effective(config.DefaultPaths(h.Root))
	return cfg, errors.Join(broken, err)
}

// DialTimeout keeps a look from waiting for a bus that does not answer.
const DialTimeout = 3 * time.Second

// Dial reaches systemd, but never on behalf of another tree.
func (h *Host) Dial(ctx context.Context) (*systemd.Conn, error) {
	if !h.Here() {
		return nil, errors.New("not for another root directory")
	}
	return systemd.Dial(ctx)
}

// DialToWait is Dial for who is going to wait for a change of units, maybe for days.
func (h *Host) DialToWait(ctx context.Context) (*systemd.Conn, error) {
	if !h.Here() {
		return nil, errors.New("not for another root directory")
	}
	return systemd.DialToWait(ctx)
}

// BootID is the kernel's name of this boot, "" if it does not tell.
func (h *Host) BootID() string {
	id, err := os.ReadFile(h.Path("proc/sys/kernel/random/boot_id"))
	if err != nil {
		return ""
	}
	return sanitize.Text(strings.TrimSpace(string(id)))
}

// NeedRoot refuses what only root can do before anything is half done.
func (h *Host) NeedRoot(what string) error {
	if os.Geteuid() == 0 || !h.Here() {
		return nil
	}
	return fmt.Errorf("%s needs root: %w", what, errors.New("run it with sudo"))
}

// Kernel is the release of the one that runs; "" where it does not tell.
func (h *Host) Kernel() string {
	text, _ := os.ReadFile(h.Path("proc/sys/kernel/osrelease"))
	return sanitize.Text(strings.TrimSpace(string(text)))
}
