package systemd

import (
	"bufio"
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"dcm/internal/linux/unitname"
	"dcm/internal/sanitize"
	"dcm/internal/sorting"
)

// Setting is what a unit's files say of something.
type Setting struct {
	Value string // "" if they say nothing
	Place string // file:line
}

func (s Setting) String() string { return fmt.Sprintf("Slice=%s (%s)", s.Value, s.Place) }

// Inside tells whether a unit with this Slice= is below that slice.
func (s Setting) Inside(slice string) bool {
	return s.Value == slice || strings.HasPrefix(s.Value, strings.TrimSuffix(slice, ".slice")+"-")
}

// Below tells whether a unit with this Slice= is in a slice below that one.
func (s Setting) Below(slice string) bool { return s.Inside(slice) && s.Value != slice }

// ReservationSlice returns the slice that the unit of a reservation runs in: the one of the
// unit's own Slice= if that is below [unitname.Slice], else the reservation's.
func ReservationSlice(reservation string, own Setting) string {
	if own.Below(unitname.Slice) {
		return own.Value
	}
	return unitname.HolderSlice(reservation)
}

// lasting are the directories of systemd.unit(5) that hold what outlives a
// daemon-reload, the strongest first.
func lasting() []string {
	return []string{"etc/systemd/system.control", "run/systemd/system.control", "run/systemd/transient", "etc/systemd/system",
		"etc/systemd/system.attached", "run/systemd/system", "run/systemd/system.attached", "usr/local/lib/systemd/system", "usr/lib/systemd/system", "lib/systemd/system"}
}

// made are those that generators write, each anew with every daemon-reload: while it
// runs, a generator sees nothing in them.
func made() []string {
	return []string{"run/systemd/generator.early", "run/systemd/generator", "run/systemd/generator.late"}
}

// OwnSlice returns the Slice= that a service's files say, dcm's own drop-in aside. A
// slice that nobody wrote down, system.slice or that of an instance, is none. With
// generated those units count too that generators have written.
func OwnSlice(root, unit string, generated bool) (Setting, error) {
	dirs := lasting()
	if generated {
		dirs = append(dirs, made()...)
	}
	f := unitFiles{root, dirs}
	var found Setting
	names := []string{unit}
	main, err := f.main(unit)
	if err == nil && main != "" {
		if real := filepath.Base(main); real != unit && real != template(unit) {
			names = append(names, real) // unit is another name of it
		}
		err = f.read(main, &found)
	}
	for _, file := range f.dropins(names) {
		err = errors.Join(err, f.read(file, &found))
	}
	return found, err
}

// Installed tells whether a unit has a file, and whether it is masked: the strongest of its
// files says that.
func Installed(root, unit string) (there, masked bool) {
	for _, dir := range lasting() {
		file := filepath.Join(root, dir, unit)
		if to, err := os.Readlink(file); err == nil && to == "/dev/null" {
			return true, true
		}
		if _, err := os.Stat(file); err == nil {
			return true, false
		}
	}
	return false, false
}

type unitFiles struct {
	root string
	dirs []string
}

// template is what an instance is one of: "vllm@.service"; "" for other units.
func template(unit string) string {
	stem, rest, ok := strings.Cut(unit, "@")
	if !ok || strings.HasPrefix(rest, ".") {
		return ""
	}
	return stem + "@" + path.Ext(unit)
}

// main is the unit's own file, links followed; "" if there is none, or it is masked.
func (f unitFiles) main(unit string) (string, error) {
	for _, name := range []string{unit, template(unit)} {
		for _, dir := range f.dirs {
			file := filepath.Join(f.root, dir, name)
			if info, err := os.Stat(file); name == "" || err != nil || info.IsDir() {
				continue
			}
			real, err := filepath.EvalSymlinks(file)
			if err != nil {
				return "", fmt.Errorf("cannot read %s: %w", unit, sanitize.Error(err))
			}
			return real, nil
		}
	}
	return "", nil
}

// dropins are those of the names, of the templates that they are of, of their prefixes
// and of all services, in the order of systemd: by file name, and of one file name that
// of the nearest.
func (f unitFiles) dropins(names []string) []string {
	found := make(map[string]string)
	for _, name := range broader(names) {
		for _, dir := range f.dirs {
			files, _ := filepath.Glob(filepath.Join(f.root, dir, escapeGlob(name)+".d", "*.conf")) // the pattern is well formed
			for _, file := range files {
				base := filepath.Base(file)
				if _, nearer := found[base]; !nearer && !(base == dropin && slices.Contains(made(), dir)) {
					found[base] = file
				}
			}
		}
	}
	var out []string
	for _, file := range found {
		out = append(out, file)
	}
	sorting.By(out, func(a, b string) int { return cmp.Compare(filepath.Base(a), filepath.Base(b)) })
	return out
}

// broader lists names whose drop-ins hold for these, the nearest first.
func broader(names []string) []string {
	var out []string
	for _, name := range names {
		for _, n := range []string{name, template(name)} {
			if n == "" {
				continue
			}
			out = append(out, n)
			stem, tail := strings.TrimSuffix(n, path.Ext(n)), path.Ext(n)
			if before, after, ok := strings.Cut(stem, "@"); ok {
				stem, tail = before, "@"+after+tail
			}
			for i := strings.LastIndexByte(strings.TrimSuffix(stem, "-"), '-'); i > 0; i = strings.LastIndexByte(stem[:i], '-') {
				out = append(out, stem[:i+1]+tail)
			}
		}
	}
	return append(out, strings.TrimPrefix(path.Ext(names[0]), ".")) // "service.d"
}

func escapeGlob(name string) string { return strings.NewReplacer(`\`, `\\`).Replace(name) }

// read takes the last Slice= of a file's [Service], where it has one. An empty one says
// nothing, as with systemd.
func (f unitFiles) read(file string, into *Setting) error {
	in, err := os.Open(file)
	if errors.Is(err, fs.ErrNotExist) || errors.Is(err, fs.ErrPermission) {
		return nil // it was removed meanwhile; what a user may not read others judge
	}
	if err != nil {
		return fmt.Errorf("cannot read a unit's file: %w", sanitize.Error(err))
	}
	defer in.Close()
	service, scan := false, bufio.NewScanner(in)
	for n := 1; scan.Scan(); n++ {
		line := strings.TrimSpace(scan.Text())
		if strings.HasPrefix(line, "[") {
			service = line == "[Service]"
		}
		key, value, ok := strings.Cut(line, "=")
		if value = strings.TrimSpace(value); service && ok && strings.TrimSpace(key) == "Slice" && value != "" {
			*into = Setting{sanitize.Text(value), fmt.Sprintf("%s:%d", sanitize.Text("/"+strings.TrimLeft(strings.TrimPrefix(file, f.root), "/")), n)}
		}
	}
	if err := scan.Err(); err != nil {
		return fmt.Errorf("cannot read %s: %w", sanitize.Text(file), sanitize.Error(err))
	}
	return nil
}
