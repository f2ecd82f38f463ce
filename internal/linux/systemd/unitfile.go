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

// dropin is the name of the file in a unit's .d directory.
const dropin = "50-dcm.conf"

// Setting is the value of a setting in a unit's files.
type Setting struct {
	Value string // "" if not set
	Place string // file:line
}

func (s Setting) String() string { return fmt.Sprintf("Slice=%s (%s)", s.Value, s.Place) }

// Inside reports whether a unit with this Slice= is below the slice.
func (s Setting) Inside(slice string) bool {
	return s.Value == slice || strings.HasPrefix(s.Value, strings.TrimSuffix(slice, ".slice")+"-")
}

// Below reports whether a unit with this Slice= is in a slice below the slice.
func (s Setting) Below(slice string) bool { return s.Inside(slice) && s.Value != slice }

// ReservationSlice returns the slice of the unit of a reservation: the unit's own Slice= if that
// is below [unitname.Slice], otherwise the reservation's.
func ReservationSlice(reservation string, own Setting) string {
	if own.Below(unitname.Slice) {
		return own.Value
	}
	return unitname.HolderSlice(reservation)
}

// lasting returns the directories of systemd.unit(5) that generators do not write, in order of
// precedence.
func lasting() []string {
	return []string{"etc/systemd/system.control", "run/systemd/system.control", "run/systemd/transient", "etc/systemd/system",
		"etc/systemd/system.attached", "run/systemd/system", "run/systemd/system.attached", "usr/local/lib/systemd/system", "usr/lib/systemd/system", "lib/systemd/system"}
}

// made returns the directories that generators write. PID 1 empties them before it runs the
// generators.
func made() []string {
	return []string{"run/systemd/generator.early", "run/systemd/generator", "run/systemd/generator.late"}
}

// OwnSlice returns the Slice= in a service's files, without dcm's drop-in. Default slices,
// system.slice and those of instances, are not returned. With generated, the files of
// generators are included.
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
		if real := filepath.Base(main); real != unit && real != unitname.Template(unit) {
			names = append(names, real) // unit is an alias
		}
		err = f.read(main, &found)
	}
	for _, file := range f.dropins(names) {
		err = errors.Join(err, f.read(file, &found))
	}
	return found, err
}

// Installed reports whether a unit has a file, and whether the one with precedence masks it.
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

// main returns the unit's file, with links resolved; "" if there is none or it is masked.
func (f unitFiles) main(unit string) (string, error) {
	for _, name := range []string{unit, unitname.Template(unit)} {
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

// dropins returns the drop-ins of the names, of their templates and prefixes, and of all
// services, in the order of systemd: by file name. Of several with one file name, the most
// specific one is used.
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

// broader returns the names whose drop-ins apply to these units, the most specific first.
func broader(names []string) []string {
	var out []string
	for _, name := range names {
		for _, n := range []string{name, unitname.Template(name)} {
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

// read takes the last Slice= in the [Service] section of a file. An empty one has no effect, as
// in systemd.
func (f unitFiles) read(file string, into *Setting) error {
	in, err := os.Open(file)
	if errors.Is(err, fs.ErrNotExist) || errors.Is(err, fs.ErrPermission) {
		return nil // removed meanwhile, or not readable for this user
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
