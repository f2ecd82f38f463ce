// Package hostimage installs the content of dcm's container image on a host that takes no
// packages, and removes it: the programs that PID 1 runs, the units and the generator until
// the next reboot, and the D-Bus policy. Its caller asks PID 1 to reload.
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

// Programs is the directory of the programs on the host. It is on a disk, since /run may be
// mounted with noexec.
const Programs = "/var/lib/dcm/image"

// Image holds the files of an image, ready to be installed.
type Image struct{ files []file }

type file struct {
	at   string // below the host's root
	text []byte
	mode fs.FileMode
	ours bool // Remove deletes it
}

const (
	service   = "usr/libexec/dcm/dcm-service"
	units     = "run/systemd/system"
	generator = "run/systemd/system-generators/dcm-generator"
	settings  = "etc/dcm/dcm.toml"
)

// Units returns the names of the units. The guard is not part of the image.
func Units() []string {
	return []string{"dcm.service", "dcm-apply.service", "dcm-gate.service", "dcm-change.service", "dcm-reserve.service", "dcm-make@.service", "dcm-clean@.service", "dcm-keep@.target", "dcm-agent.service", "dcm-agent.socket", "dcm.slice"}
}

// Load reads the image.
func Load(image fs.FS) (Image, error) {
	c := Image{}
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

// HasPackage reports whether dcm's package is installed on the host. Then no image is needed.
func HasPackage(host string) bool {
	for _, dir := range []string{"usr/lib", "lib", "etc"} {
		if _, err := os.Lstat(filepath.Join(host, dir, "systemd/system/dcm-apply.service")); err == nil {
			return true
		}
	}
	return false
}

// Install writes the files below the host's root. It does not touch files that are up to date,
// so it may be repeated at any time, and it replaces files atomically. The generator is last,
// since it writes drop-ins that name the units.
func (c Image) Install(host string) error {
	for _, f := range c.files {
		at := filepath.Join(host, f.at)
		if _, err := os.Lstat(at); err == nil && f.at == settings {
			continue // it belongs to the administrator
		}
		if err := replaceFile(at, f.text, f.mode); err != nil {
			return fmt.Errorf("cannot install %s on the host: %w", f.at, err)
		}
	}
	for _, dir := range []string{"run/dcm/dcm.toml.d", "etc/dcm/dcm.toml.d"} {
		if err := os.MkdirAll(filepath.Join(host, dir), 0o755); err != nil {
			return fmt.Errorf("cannot install dcm on the host: %w", err)
		}
	}
	if err := replaceLink(Programs+"/dcm-service", filepath.Join(host, generator)); err != nil {
		return fmt.Errorf("cannot install the generator on the host: %w", err)
	}
	return nil
}

// RemoveGenerator removes the generator: after the next reload no client is part of dcm's
// units.
func RemoveGenerator(host string) error { return removeFile(filepath.Join(host, generator)) }

// Remove removes all other files except /etc/dcm and the state of runs.
func (c Image) Remove(host string) error {
	var errs []error
	for _, f := range c.files {
		if f.ours {
			errs = append(errs, removeFile(filepath.Join(host, f.at)))
		}
	}
	// This includes temporary files of a process that was killed while it copied.
	return errors.Join(append(errs, os.RemoveAll(filepath.Join(host, Programs)))...)
}

func removeFile(path string) error {
	if err := os.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}

func replaceFile(at string, text []byte, mode fs.FileMode) error {
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

func replaceLink(to, at string) error {
	if now, err := os.Readlink(at); err == nil && now == to {
		return nil
	}
	if err := os.MkdirAll(filepath.Dir(at), 0o755); err != nil {
		return err
	}
	next := filepath.Join(filepath.Dir(filepath.Dir(at)), ".dcm-generator.new") // systemd runs no generator there
	if err := removeFile(next); err != nil {
		return err
	}
	if err := os.Symlink(to, next); err != nil {
		return err
	}
	return os.Rename(next, at)
}
