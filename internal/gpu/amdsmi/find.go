package amdsmi

import (
	"cmp"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// sonames lists all published SONAMEs of the library, newest first.
func sonames() []string {
	var out []string
	for _, n := range []string{".27", ".26", ".25", ".24", ".0", ""} {
		out = append(out, "libamd_smi.so"+n)
	}
	return out
}

// Candidates lists the names to load, in order. It is the configured path alone, or the
// SONAMEs for the dynamic loader followed by the files in ROCm's directories below root/opt,
// highest version first.
func Candidates(configured, root string) []string {
	if configured != "" {
		return []string{configured}
	}
	out := sonames()
	for _, dir := range rocmDirs(root) {
		for _, name := range sonames() {
			if file := filepath.Join(dir, name); exists(file) {
				out = append(out, file)
			}
		}
	}
	return out
}

func exists(file string) bool {
	found, err := filepath.Glob(file)
	return err == nil && len(found) > 0
}

func rocmDirs(root string) []string {
	dirs, err := filepath.Glob(filepath.Join(root, "opt", "rocm-*", "lib"))
	if err != nil {
		dirs = nil
	}
	slices.SortFunc(dirs, func(a, b string) int { return slices.Compare(numbersIn(b), numbersIn(a)) })
	return append([]string{filepath.Join(root, "opt", "rocm", "lib")}, dirs...)
}

var digits = regexp.MustCompile(`[0-9]+`)

// numbersIn returns the version numbers in a directory name like rocm-6.10.2. A name without
// numbers sorts last.
func numbersIn(dir string) []int {
	var out []int
	for _, d := range digits.FindAllString(filepath.Base(filepath.Dir(dir)), -1) {
		n, err := strconv.Atoi(d)
		if err != nil {
			break
		}
		out = append(out, n)
	}
	return out
}

// mappedFile returns the file that is mapped at addr, from the text of /proc/self/maps; ""
// if there is none.
func mappedFile(maps string, addr uint64) string {
	for line := range strings.Lines(maps) {
		fields := strings.Fields(line)
		if len(fields) < 6 {
			continue
		}
		from, to, ok := strings.Cut(fields[0], "-")
		if !ok {
			continue
		}
		lo, errLo := strconv.ParseUint(from, 16, 64)
		hi, errHi := strconv.ParseUint(to, 16, 64)
		if cmp.Or(errLo, errHi) == nil && lo <= addr && addr < hi {
			return fields[5]
		}
	}
	return ""
}
