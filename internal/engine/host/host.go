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
	"dcm/internal/engine/runstate"
	"dcm/internal/linux/systemd"
	"dcm/internal/sanitize"
)

// Host is a machine, or a tree of files that represents one.
type Host struct {
	Root    string // "/", except in tests and for another tree
	Version string // of this program
}

// Here reports whether this is the running host. Another tree has files only: no systemd, and no
// processes.
func (h *Host) Here() bool { return h.Root == "/" }

// Path returns a path below the root.
func (h *Host) Path(elem ...string) string {
	return filepath.Join(append([]string{h.Root}, elem...)...)
}

// Runtime returns the directory of reports, locks and the selection until the next reboot.
func (h *Host) Runtime() string { return h.Path("run/dcm") }

// KnownGPUs returns the path of [runstate.KnownFile].
func (h *Host) KnownGPUs() string { return h.Path("var/lib/dcm", runstate.KnownFile) }

// GPUClients returns the path of [runstate.GPUClientsFile].
func (h *Host) GPUClients() string { return h.Path("var/lib/dcm", runstate.GPUClientsFile) }

// Locks returns the files that the processes of dcm lock.
func (h *Host) Locks() Locks { return Locks{h.Runtime()} }

// GuardOff returns the file that disables the guard until the next boot.
func (h *Host) GuardOff() string { return h.Path("run/dcm/guard.off") }

// Config loads the configuration from all its layers.
func (h *Host) Config() (*config.Config, error) {
	return config.Load(config.DefaultPaths(h.Root))
}

// Effective returns Config or, if that cannot be used, the last good configuration that the daemon
// saved, together with the error.
func (h *Host) Effective() (*config.Config, error) {
	cfg, broken, err := selection.Effective(config.DefaultPaths(h.Root))
	return cfg, errors.Join(broken, err)
}

// ErrOtherRoot is the error of functions that need the running host, if Root is another directory.
var ErrOtherRoot = errors.New("only possible on the running host, and --root names another directory")

// DialTimeout limits queries of systemd.
const DialTimeout = 3 * time.Second

// Dial connects to systemd. It returns an error for another tree.
func (h *Host) Dial(ctx context.Context) (*systemd.Conn, error) {
	if !h.Here() {
		return nil, ErrOtherRoot
	}
	return systemd.Dial(ctx)
}

// DialToWait is Dial for a caller that waits for a change of units, possibly for days.
func (h *Host) DialToWait(ctx context.Context) (*systemd.Conn, error) {
	if !h.Here() {
		return nil, ErrOtherRoot
	}
	return systemd.DialToWait(ctx)
}

// BootID returns the kernel's id of this boot, "" if it cannot be read.
func (h *Host) BootID() string {
	id, err := os.ReadFile(h.Path("proc/sys/kernel/random/boot_id"))
	if err != nil {
		return ""
	}
	return sanitize.Text(strings.TrimSpace(string(id)))
}

// NeedRoot returns an error if the caller is not root, before work begins that only root can
// finish.
func (h *Host) NeedRoot(what string) error {
	if os.Geteuid() == 0 || !h.Here() {
		return nil
	}
	return fmt.Errorf("%s needs root: %w", what, errors.New("run it with sudo"))
}

// Kernel returns the release of the running kernel, "" if it cannot be read.
func (h *Host) Kernel() string {
	text, _ := os.ReadFile(h.Path("proc/sys/kernel/osrelease"))
	return sanitize.Text(strings.TrimSpace(string(text)))
}
