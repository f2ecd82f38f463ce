package devguard

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"

	"golang.org/x/sys/unix"
)

// Device is the number of a character device.
type Device struct {
	Major, Minor uint32
}

func (d Device) String() string { return fmt.Sprintf("%d:%d", d.Major, d.Minor) }

// UnsupportedError is returned if the kernel does not support the guard, or does not permit this
// process to load it. Exclusive reservations are only confined then.
type UnsupportedError struct{ Err error }

func (e *UnsupportedError) Error() string {
	return "the kernel does not support the guard: " + e.Err.Error()
}
func (e *UnsupportedError) Unwrap() error { return e.Err }

// Guard contains the paths of the guard. The zero value is not usable.
type Guard struct {
	Cgroups string // the root of the cgroup tree: a mounted cgroup2
	Pins    string // the guard's directory in a bpf file system: "/sys/fs/bpf/dcm"
}

func (g Guard) table() string { return filepath.Join(g.Pins, "access") }
func (g Guard) link() string  { return filepath.Join(g.Pins, "program") }

// Access is the content of the table: which cgroups may open which devices. A cgroup is given by its
// ID, see [Guard.Identify], and includes the cgroups below it.
type Access struct {
	Devices map[Device][]uint64 // the cgroups that may open a guarded device, in addition to those in All
	All     []uint64            // the cgroups that may open every device
}

// Set changes the table to a, and loads the program if necessary. It adds new entries before it
// deletes old ones, so a device that stays guarded is guarded all the time. If Set is interrupted, the
// next Set deletes the remaining old entries.
//
// A cgroup that was removed and created again has another ID, so Set must be called again then.
func (g Guard) Set(a Access) error {
	table, err := g.open()
	if err != nil {
		return fmt.Errorf("cannot guard devices: %w", permitted(err))
	}
	defer unix.Close(table)
	if err := fill(table, a); err != nil {
		return fmt.Errorf("cannot change the guard's table: %w", err)
	}
	if err := g.begin(table); err != nil {
		return fmt.Errorf("cannot guard devices: %w", permitted(err))
	}
	return nil
}

// permitted returns an [UnsupportedError] for EPERM: in a container, by kernel lockdown, or by a seccomp filter. A
// container may create tables, and load no programs.
func permitted(err error) error {
	if _, known := errors.AsType[*UnsupportedError](err); known || !errors.Is(err, unix.EPERM) {
		return err
	}
	return &UnsupportedError{fmt.Errorf("loading programs is not permitted here: %w", err)}
}

// permission is a key of the table. If device is zero, it applies to all devices. If cgroup is 0,
// which no cgroup has as its ID, it marks the device as guarded.
type permission struct {
	device Device
	cgroup uint64
}

// rows returns the keys of the table in the order in which they are added: the cgroups of a device
// before the key that marks it as guarded.
func (a Access) rows() []permission {
	var members, guarded []permission
	for _, id := range a.All {
		members = append(members, permission{cgroup: id})
	}
	for d, ids := range a.Devices {
		for _, id := range ids {
			members = append(members, permission{d, id})
		}
		guarded = append(guarded, permission{device: d})
	}
	return append(members, guarded...)
}

// fill adds missing keys, and then deletes the others.
func fill(table int, a Access) error {
	now, err := keys(table)
	if err != nil {
		return err
	}
	want := make(map[permission]bool)
	for _, p := range a.rows() {
		want[p] = true
		if now[p] {
			continue
		}
		if err := add(table, p); err != nil {
			return fmt.Errorf("%s: %w", p.device, err)
		}
	}
	var old []permission
	for p := range now {
		if !want[p] {
			old = append(old, p)
		}
	}
	// Delete the mark of a device before its cgroups, so that a guarded device always has its cgroups.
	slices.SortFunc(old, func(a, b permission) int { return cmp.Compare(a.cgroup, b.cgroup) })
	for _, p := range old {
		if err := remove(table, p); err != nil {
			return fmt.Errorf("%s: %w", p.device, err)
		}
	}
	return nil
}

// Table reads the kernel's table. It is empty if no guard is loaded.
func (g Guard) Table() (Access, error) {
	table, err := get(g.table())
	if absent(err) {
		return Access{}, nil
	}
	if err != nil {
		return Access{}, fmt.Errorf("cannot read the guard's table: %w", err)
	}
	defer unix.Close(table)
	all, err := keys(table)
	if err != nil {
		return Access{}, fmt.Errorf("cannot read the guard's table: %w", err)
	}
	out := Access{Devices: make(map[Device][]uint64)}
	for p := range all {
		if p.cgroup == 0 {
			out.Devices[p.device] = nil
		}
	}
	for p := range all {
		_, guarded := out.Devices[p.device]
		switch {
		case p.device == Device{}:
			out.All = append(out.All, p.cgroup)
		case guarded && p.cgroup != 0:
			out.Devices[p.device] = append(out.Devices[p.device], p.cgroup)
		}
	}
	slices.Sort(out.All)
	for _, ids := range out.Devices {
		slices.Sort(ids)
	}
	return out, nil
}

// Loaded reports whether the program is attached.
func (g Guard) Loaded() bool {
	_, err := os.Stat(g.link())
	return err == nil
}

// Off unloads the guard. It returns no error if the guard is not loaded.
func (g Guard) Off() error {
	errs := []error{unload(g.link())}
	for _, path := range []string{g.table(), g.Pins} {
		errs = append(errs, unpin(path))
	}
	return errors.Join(errs...)
}

// unload detaches the program of a pinned link, and removes the pin.
func unload(path string) error {
	link, err := get(path)
	if absent(err) {
		return nil
	}
	if err == nil {
		err = detach(link)
		unix.Close(link)
	}
	return errors.Join(err, unpin(path))
}

func unpin(path string) error {
	if err := os.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}

// Identify returns the ID of a cgroup.
func (g Guard) Identify(cgroup string) (uint64, error) {
	return identify(filepath.Join(g.Cgroups, cgroup))
}

// identify returns the ID of a cgroup, which is the inode number of its directory (cgroup_id in
// linux/cgroup.h, kernfs_ino).
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

// open returns the pinned table, or creates it. The table may exist without the program if a process
// was killed between the two.
func (g Guard) open() (int, error) {
	if err := g.place(); err != nil {
		return -1, err
	}
	table, err := get(g.table())
	if absent(err) {
		table, err = g.newTable()
	}
	return table, err
}

func (g Guard) newTable() (int, error) {
	table, err := createTable()
	if errors.Is(err, unix.ENOSYS) {
		return -1, &UnsupportedError{err}
	}
	if err != nil {
		return -1, fmt.Errorf("cannot create a table: %w", err)
	}
	if err := pin(table, g.table()); err != nil {
		unix.Close(table)
		return -1, fmt.Errorf("cannot pin %s: %w", g.table(), err)
	}
	return table, nil
}

// begin loads and attaches the program if it is not attached.
func (g Guard) begin(table int) error {
	if g.Loaded() {
		return nil
	}
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
		return &UnsupportedError{fmt.Errorf("no links of programs to cgroups: %w", err)}
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

// place creates the directory of the pins.
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
