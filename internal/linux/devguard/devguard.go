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

func (g Guard) table() string { return filepath.Join(g.Pins, "access") }
func (g Guard) link() string  { return filepath.Join(g.Pins, "program") }

// replaced are the pins of an older dcm, whose table had one cgroup for each device. The
// first one is its link.
func (g Guard) replaced() []string {
	return []string{filepath.Join(g.Pins, "link"), filepath.Join(g.Pins, "devices")}
}

// Access says below which cgroups guarded devices open. A cgroup is named by its number,
// see [Guard.Identify].
type Access struct {
	Devices map[Device][]uint64 // none: the device opens below those of All only
	All     []uint64            // below them every device opens
}

// Set makes the table so. It loads the program if it is not loaded yet. A device that is
// guarded before and after it stays guarded meanwhile: new entries are written before old
// ones are deleted. If Set is interrupted, some of the old entries are left, and the next Set
// deletes them.
//
// A cgroup that was removed and created again has another number: Set again.
func (g Guard) Set(a Access) error {
	table, err := g.open()
	if errors.Is(err, unix.EPERM) { // a container, a kernel that is locked down, a filter
		err = &UnsupportedError{fmt.Errorf("no process may load programs into it here: %w", err)}
	}
	if err != nil {
		return fmt.Errorf("cannot guard devices: %w", err)
	}
	defer unix.Close(table)
	if err := fill(table, a); err != nil {
		return fmt.Errorf("cannot change the guard's table: %w", err)
	}
	if err := g.begin(table); err != nil {
		return fmt.Errorf("cannot guard devices: %w", err)
	}
	return g.retire()
}

// permission is a key of the table. With no device it is for all devices. With cgroup 0,
// which no cgroup has as its number, it says that the device is guarded.
type permission struct {
	device Device
	cgroup uint64
}

// rows are the keys of the table in the order in which they are added: a device is guarded
// when those who may open it are in the table.
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

// fill adds what is missing and then deletes what is not wanted.
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
	// First those that guard a device: a device is never guarded without its holders.
	slices.SortFunc(old, func(a, b permission) int { return cmp.Compare(a.cgroup, b.cgroup) })
	for _, p := range old {
		if err := remove(table, p); err != nil {
			return fmt.Errorf("%s: %w", p.device, err)
		}
	}
	return nil
}

// Table returns what is in the kernel's table; nothing if no guard is loaded.
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

// Off takes the guard out of the kernel. If none is loaded it does nothing.
func (g Guard) Off() error {
	errs := []error{unload(g.link())}
	for _, path := range append(g.replaced(), g.table(), g.Pins) {
		errs = append(errs, unpin(path))
	}
	return errors.Join(errs...)
}

// retire takes the guard of an older dcm out of the kernel. Until then both are asked.
func (g Guard) retire() error {
	old := g.replaced()
	if err := unload(old[0]); err != nil {
		return fmt.Errorf("cannot take out the guard of an older dcm: %w", err)
	}
	return unpin(old[1])
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

// open returns the pinned table. It may exist without the program: a process that was killed
// before it pinned the link leaves a table that nothing reads.
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
		return -1, fmt.Errorf("cannot make a table: %w", err)
	}
	if err := pin(table, g.table()); err != nil {
		unix.Close(table)
		return -1, fmt.Errorf("cannot pin %s: %w", g.table(), err)
	}
	return table, nil
}

// begin loads the program and attaches it, unless it is attached.
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
