package systemd

import (
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path"
	"slices"
	"strings"

	"golang.org/x/sys/unix"

	"dcm/internal/sanitize"
)

// Generate writes the drop-ins of o to dir, the directory for normal priority of
// systemd.generator(7), and removes other drop-ins of dcm there. It changes nothing outside
// dir. It omits names that are not valid for units and returns an error for them; the others
// are written.
func Generate(dir string, o Order) error {
	root, err := os.OpenRoot(dir)
	if err != nil {
		return fmt.Errorf("cannot open the generator's directory: %w", err)
	}
	defer root.Close()

	o, errs := o.checked()
	want := o.Dropins()
	for file, text := range want {
		if err := place(root, file, text); err != nil {
			errs = append(errs, fmt.Errorf("cannot write %s: %w", file, err))
		}
	}
	have, err := dropins(root)
	if err != nil {
		errs = append(errs, err)
	}
	for _, file := range have {
		if _, ok := want[file]; !ok {
			errs = append(errs, remove(root, file))
		}
	}
	return errors.Join(errs...)
}

// Differing returns the units whose drop-in in dir, the generator's output in
// /run/systemd/generator, is missing, differs from that of o, or is not in o. If there are any,
// a daemon-reload is needed.
func Differing(dir string, want map[string]string) ([]string, error) {
	missing := make(map[string]bool, len(want))
	for file := range want {
		missing[unitOf(file)] = true
	}
	root, err := os.Open(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return slices.Sorted(maps.Keys(missing)), nil
	}
	if err != nil {
		return nil, fmt.Errorf("cannot open the generator's directory: %w", err)
	}
	defer root.Close()
	units, err := root.ReadDir(-1)
	if err != nil {
		return nil, fmt.Errorf("cannot list the generator's directory: %w", err)
	}
	for _, u := range units {
		if !u.IsDir() || !strings.HasSuffix(u.Name(), ".d") {
			continue
		}
		file := path.Join(u.Name(), dropin)
		text, wanted := want[file]
		switch same, err := same(int(root.Fd()), file, text); {
		case errors.Is(err, fs.ErrNotExist): // of another generator
		case err != nil, !wanted, !same:
			missing[sanitize.Text(unitOf(file))] = true
		default:
			delete(missing, unitOf(file))
		}
	}
	return slices.Sorted(maps.Keys(missing)), nil
}

// unitOf returns the unit of a drop-in.
func unitOf(file string) string { return strings.TrimSuffix(path.Dir(file), ".d") }

// same reports whether a file in root has that text. It needs few system calls, because each
// start of the daemon compares the files of all clients. A path that is not a regular file is
// an error.
func same(root int, file, text string) (bool, error) {
	fd, err := unix.Openat(root, file, unix.O_RDONLY|unix.O_NOFOLLOW|unix.O_NONBLOCK|unix.O_CLOEXEC, 0)
	if err != nil {
		return false, err
	}
	defer unix.Close(fd)
	have := make([]byte, len(text)+1)
	n, err := unix.Read(fd, have)
	return err == nil && string(have[:n]) == text, err
}

// dropins returns dcm's drop-ins in root.
func dropins(root *os.Root) ([]string, error) {
	units, err := fs.ReadDir(root.FS(), ".")
	if err != nil {
		return nil, fmt.Errorf("cannot list the generator's directory: %w", err)
	}
	var out []string
	for _, u := range units {
		file := path.Join(u.Name(), dropin)
		if !u.IsDir() || !strings.HasSuffix(u.Name(), ".d") {
			continue
		}
		if _, err := root.Lstat(file); err == nil {
			out = append(out, file)
		} else if !errors.Is(err, fs.ErrNotExist) {
			return nil, fmt.Errorf("cannot search for %s: %w", sanitize.Text(file), sanitize.Error(err))
		}
	}
	return out, nil
}

// place writes a file unless it already has that text. It replaces anything else at that path,
// and does not follow symbolic links. The file is not replaced atomically: PID 1 reads it after
// the generator has exited.
func place(root *os.Root, file, text string) error {
	if holds(root, file, text) {
		return nil
	}
	if err := root.Mkdir(path.Dir(file), 0o755); err != nil && !errors.Is(err, fs.ErrExist) {
		return err
	}
	if err := root.Remove(file); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	f, err := root.OpenFile(file, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o644)
	if err != nil {
		return err
	}
	_, err = f.WriteString(text)
	return errors.Join(err, f.Close())
}

func holds(root *os.Root, file, text string) bool {
	info, err := root.Lstat(file)
	if err != nil || !info.Mode().IsRegular() {
		return false
	}
	have, err := root.ReadFile(file)
	return err == nil && string(have) == text
}

// remove removes a drop-in, and its directory if that is empty then.
func remove(root *os.Root, file string) error {
	if err := root.Remove(file); err != nil {
		return fmt.Errorf("cannot remove %s: %w", sanitize.Text(file), sanitize.Error(err))
	}
	if left, err := fs.ReadDir(root.FS(), path.Dir(file)); err != nil || len(left) > 0 {
		return nil // it has drop-ins of other generators
	}
	return root.Remove(path.Dir(file))
}
