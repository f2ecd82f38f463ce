// Package hostimage lays what dcm's image holds onto a host that takes no package, and takes
// it away again: the programs that PID 1 runs, the units and the generator until the
// reboot, and the bus' policy. It speaks to nobody: its caller has PID 1 reload.
package hostimage

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"dcm/internal/linux/atomicfile"
)

// Programs is where the host has them: on a disk, since /run may forbid to run anything.
const Programs = "/var/lib/dcm/image"

// Cargo is what an image holds, ready to be laid.
type Cargo struct{ files []file }

type file struct {
	at   string // below the host's root
	text []byte
	mode fs.FileMode
	ours bool // goes when all is taken away
}

const (
	service   = "usr/libexec/dcm/dcm-service"
	units     = "run/systemd/system"
	generator = "run/systemd/system-generators/dcm-generator"
	settings  = "etc/dcm/dcm.toml"
)

// Units are those that are laid. What guards partitions is not brought.
func Units() []string {
	return []string{"dcm.service", "dcm-apply.service", "dcm-reserve.service", "dcm-agent.service", "dcm-agent.socket", "dcm.slice"}
}

// Load reads the image.
func Load(image fs.FS) (Cargo, error) {
	c := Cargo{}
	add := func(from, at string, mode fs.FileMode, ours bool) error {
		text, err := fs.ReadFile(image, from)
		if err != nil {
			return fmt.Errorf("cannot read the image: %w", err)
		}
		if strings.HasPrefix(at, units) {
			text = bytes.ReplaceAll(text, []byte("=/"+service+" "), []byte("="+Programs+"/dcm-service "))
		}
		c.files = append(c.files, file{at, text, mode, ours})
		return nil
	}
	err := errors.Join(
		add(service, filepath.Join(Programs, "dcm-service")[1:], 0o755, true),
		add("usr/bin/dcm", filepath.Join(Programs, "dcm")[1:], 0o755, true),
		add("usr/share/dcm/dcm.toml", settings, 0o644, false),
		add("usr/share/dbus-1/system.d/org.deviceconfig.Manager1.conf", "etc/dbus-1/system.d/org.deviceconfig.Manager1.conf", 0o644, true))
	for _, unit := range Units() {
		err = errors.Join(err, add("usr/lib/systemd/system/"+unit, units+"/"+unit, 0o644, true))
	}
	return c, err
}

// Packaged tells whether the host has dcm's package, which needs no image.
func Packaged(host string) bool {
	for _, dir := range []string{"usr/lib", "lib", "etc"} {
		if _, err := os.Lstat(filepath.Join(host, dir, "systemd/system/dcm-apply.service")); err == nil {
			return true
		}
	}
	return false
}

// Lay puts all of it in place below the host's root. What is as it should be is not
// touched, so that it may be done again at any time, and a reader finds an old file or a
// new one. The generator is last: it makes drop-ins that name the units.
func (c Cargo) Lay(host string) error {
	for _, f := range c.files {
		at := filepath.Join(host, f.at)
		if _, err := os.Lstat(at); err == nil && f.at == settings {
			continue // the administrator's
		}
		if err := replace(at, f.text, f.mode); err != nil {
			return fmt.Errorf("cannot bring %s to the host: %w", f.at, err)
		}
	}
	for _, dir := range []string{"run/dcm/dcm.toml.d", "etc/dcm/dcm.toml.d"} {
		if err := os.MkdirAll(filepath.Join(host, dir), 0o755); err != nil {
			return fmt.Errorf("cannot bring dcm to the host: %w", err)
		}
	}
	if err := link(Programs+"/dcm-service", filepath.Join(host, generator)); err != nil {
		return fmt.Errorf("cannot bring the generator to the host: %w", err)
	}
	return nil
}

// LetGo takes the generator away: with the next reload no client is part of dcm's units.
func LetGo(host string) error { return gone(filepath.Join(host, generator)) }

// Lift takes away the rest, but for /etc/dcm and what dcm knows of its runs.
func (c Cargo) Lift(host string) error {
	var errs []error
	for _, f := range c.files {
		if f.ours {
			errs = append(errs, gone(filepath.Join(host, f.at)))
		}
	}
	// With what somebody has left there who was killed while he copied.
	return errors.Join(append(errs, os.RemoveAll(filepath.Join(host, Programs)))...)
}

func gone(path string) error {
	if err := os.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}

func replace(at string, text []byte, mode fs.FileMode) error {
	if now, err := os.ReadFile(at); err == nil && bytes.Equal(now, text) {
		return os.Chmod(at, mode)
	}
	if err := os.MkdirAll(filepath.Dir(at), 0o755); err != nil {
		return err
	}
	// A loss of power must not leave an empty file of settings: dcm takes it for the
	// administrator's from then on.
	return atomicfile.Write(at, text, atomicfile.Options{Mode: mode})
}

func link(to, at string) error {
	if now, err := os.Readlink(at); err == nil && now == to {
		return nil
	}
	if err := os.MkdirAll(filepath.Dir(at), 0o755); err != nil {
		return err
	}
	next := filepath.Join(filepath.Dir(filepath.Dir(at)), ".dcm-generator.new") // nothing runs it there
	if err := gone(next); err != nil {
		return err
	}
	if err := os.Symlink(to, next); err != nil {
		return err
	}
	return os.Rename(next, at)
}
