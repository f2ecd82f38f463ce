package guard

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"
)

// Device is a character device's number.
type Device struct {
	Major, Minor uint32
}

func (d Device) String() string { return fmt.Sprintf("%d:%d", d.Major, d.Minor) }

// UnsupportedError tells that this kernel, or what it lets the caller do, has no
// guard. Reservations are then confined, but not exclusive.
type UnsupportedError struct{ Err error }

func (e *UnsupportedError) Error() string { return "this kernel has no guard: " + e.Err.Error() }
func (e *UnsupportedError) Unwrap() error { return e.Err }

// Guard is where the guard is. The zero value is not usable.
type Guard struct {
	Cgroups string // the root of the cgroup tree: a mounted cgroup2
	Pins    string // a directory of its own in a bpf file system: "/sys/fs/bpf/dcm"
}

func (g Guard) table() string { return filepath.Join(g.Pins, "devices") }
func (g Guard) link() string  { return filepath.Join(g.Pins, "link") }

// Set makes the table so that the devices, and no others, open only below the cgroup,
// which is named by its path from the root of the tree. It loads the program where
// that is not there yet. What is told twice stays as it is.
//
// A cgroup that has been removed and made again has another number, so that even
// its own processes would be denied: Set again.
func (g Guard) Set(cgroup string, devices []Device) error {
	id, err := identify(filepath.Join(g.Cgroups, cgroup))
	if err != nil {
		return fmt.Errorf("cannot guard devices for %s: %w", cgroup, err)
	}
	table, err := g.open()
	if errors.Is(err, unix.EPERM) { // a container, a kernel that is locked down, a filter
		err = &UnsupportedError{fmt.Errorf("nobody may load programs into it here: %w", err)}
	}
	if err != nil {
		return fmt.Errorf("cannot guard devices for %s: %w", cgroup, err)
	}
	defer unix.Close(table)
	want := make(map[Device]uint64, len(devices))
	for _, d := range devices {
		want[d] = id
	}
	if err := fill(table, want); err != nil {
		return fmt.Errorf("cannot change the guard's table: %w", err)
	}
	return nil
}

// fill first takes out what is to be free and then puts in what is to be guarded.
func fill(table int, want map[Device]uint64) error {
	now, err := entries(table)
	if err != nil {
		return err
	}
	for d := range now {
		if _, ok := want[d]; !ok {
			if err := entry(table, cmdMapDelete, &d, nil); err != nil && !errors.Is(err, unix.ENOENT) {
				return err
			}
		}
	}
	for d, id := range want {
		if now[d] != id {
			if err := entry(table, cmdMapUpdate, &d, &id); err != nil {
				return fmt.Errorf("%s: %w", d, err)
			}
		}
	}
	return nil
}

// Guarded returns the devices in the table with the numbers of their cgroups; nothing
// where no guard is loaded.
func (g Guard) Guarded() (map[Device]uint64, error) {
	table, err := get(g.table())
	if absent(err) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("cannot read the guard's table: %w", err)
	}
	defer unix.Close(table)
	return entries(table)
}

// Loaded tells whether the program is in force.
func (g Guard) Loaded() bool {
	_, err := os.Stat(g.link())
	return err == nil
}

// Off takes the guard out of the kernel. Where none is loaded it does nothing.
func (g Guard) Off() error {
	link, err := get(g.link())
	if err == nil {
		err = detach(link)
		unix.Close(link)
	}
	if absent(err) {
		err = nil
	}
	errs := []error{err}
	for _, path := range []string{g.link(), g.table(), g.Pins} {
		if err := os.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
			errs = append(errs, err)
		}
	}
	return errors.Join(errs...)
}

// Identify returns the number of a cgroup, as the table has it.
func (g Guard) Identify(cgroup string) (uint64, error) {
	return identify(filepath.Join(g.Cgroups, cgroup))
}

// identify reads a cgroup's number. It is the number of its directory
// (cgroup_id in linux/cgroup.h, kernfs_ino).
func identify(dir string) (uint64, error) {
	var fs unix.Statfs_t
	if err := unix.Statfs(dir, &fs); err != nil {
		return 0, &os.PathError{Op: "statfs", Path: dir, Err: err}
	}
	if fs.Type != unix.CGROUP2_SUPER_MAGIC {
		return 0, &UnsupportedError{fmt.Errorf("%s is not in a cgroup2 file system", dir)}
	}
	var st unix.Stat_t
	if err := unix.Stat(dir, &st); err != nil {
		return 0, &os.PathError{Op: "stat", Path: dir, Err: err}
	}
	return st.Ino, nil
}

func absent(err error) bool { return errors.Is(err, unix.ENOENT) || errors.Is(err, unix.ENOTDIR) }

// open returns the table of a guard that is in force. The link comes last: whoever is
// killed before it has pinned the link leaves a table that nobody asks.
func (g Guard) open() (int, error) {
	if err := g.place(); err != nil {
		return -1, err
	}
	table, err := get(g.table())
	if absent(err) {
		table, err = g.newTable()
	}
	if err != nil || g.Loaded() {
		return table, err
	}
	if err := g.begin(table); err != nil {
		unix.Close(table)
		return -1, err
	}
	return table, nil
}

func (g Guard) newTable() (int, error) {
	table, err := createTable()
	if errors.Is(err, unix.ENOSYS) {
		return -1, &UnsupportedError{err}
	}
	if err != nil {
		return -1, fmt.Errorf("cannot make a table: %w", err)
	}
	if err := pin(table, g.table()); err != nil {
		unix.Close(table)
		return -1, fmt.Errorf("cannot pin %s: %w", g.table(), err)
	}
	return table, nil
}

// begin loads the program and puts it in force.
func (g Guard) begin(table int) error {
	program, err := load(table)
	if err != nil {
		return fmt.Errorf("cannot load the device program: %w", err)
	}
	defer unix.Close(program)
	root, err := unix.Open(g.Cgroups, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		return &os.PathError{Op: "open", Path: g.Cgroups, Err: err}
	}
	defer unix.Close(root)
	link, err := attach(program, root)
	if errors.Is(err, unix.EINVAL) || errors.Is(err, unix.ENOSYS) {
		return &UnsupportedError{fmt.Errorf("it has no links to cgroups: %w", err)}
	}
	if err != nil {
		return fmt.Errorf("cannot attach the device program to %s: %w", g.Cgroups, err)
	}
	defer unix.Close(link)
	if err := pin(link, g.link()); err != nil {
		return fmt.Errorf("cannot pin %s: %w", g.link(), err)
	}
	return nil
}

// place makes the directory of the pins.
func (g Guard) place() error {
	parent := filepath.Dir(g.Pins)
	var fs unix.Statfs_t
	if err := unix.Statfs(parent, &fs); err != nil {
		return &UnsupportedError{&os.PathError{Op: "statfs", Path: parent, Err: err}}
	}
	if fs.Type != unix.BPF_FS_MAGIC {
		return &UnsupportedError{fmt.Errorf("%s is not a bpf file system", parent)}
	}
	if err := os.Mkdir(g.Pins, 0o700); err != nil && !errors.Is(err, os.ErrExist) {
		return err
	}
	return nil
}
