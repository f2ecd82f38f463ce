package image

import (
	"bytes"
	"debug/buildinfo"
	"fmt"
	"os"
	"path/filepath"
	"runtime/debug"
	"slices"
	"strings"
	"unicode"
)

// licenseDir is the directory of the licence texts in the image.
const licenseDir = "usr/share/licenses/"

// Licenses are the sources of the licence texts of a program.
type Licenses struct {
	Own     []string // files of dcm
	Modules string   // Go's module cache, which has the modules of the program
	Go      string   // Go's root, since the program contains its library
}

// file is a text of the image.
type file struct {
	path string
	text []byte
}

// texts returns the licence texts of a program in lexical order: dcm's own, Go's, and those of all
// modules that its build information names.
func (l Licenses) texts(name, program string) ([]file, error) {
	info, err := buildinfo.ReadFile(program)
	if err != nil {
		return nil, fmt.Errorf("cannot read the modules of %s: %w", program, err)
	}
	var out []file
	for _, path := range l.Own {
		if out, err = appendText(out, name, path); err != nil {
			return nil, err
		}
	}
	if out, err = appendText(out, "go", filepath.Join(l.Go, "LICENSE")); err != nil {
		return nil, err
	}
	for _, m := range info.Deps {
		if out, err = l.module(out, m); err != nil {
			return nil, err
		}
	}
	slices.SortFunc(out, func(a, b file) int { return strings.Compare(a.path, b.path) })
	return out, nil
}

// module appends the licence texts of a module. A module without one is an error.
func (l Licenses) module(out []file, m *debug.Module) ([]file, error) {
	if m.Replace != nil {
		m = m.Replace
	}
	dir := filepath.Join(l.Modules, escape(m.Path)+"@"+escape(m.Version))
	entries, err := os.ReadDir(dir)
	if err != nil {
		return nil, fmt.Errorf("cannot read the licence of %s: %w", m.Path, err)
	}
	found := false
	for _, e := range entries {
		upper := strings.ToUpper(e.Name())
		license := strings.HasPrefix(upper, "LICENSE") || strings.HasPrefix(upper, "LICENCE") || strings.HasPrefix(upper, "COPYING")
		if !e.Type().IsRegular() || !license && !strings.HasPrefix(upper, "NOTICE") && !strings.HasPrefix(upper, "PATENTS") {
			continue
		}
		found = found || license
		if out, err = appendText(out, m.Path, filepath.Join(dir, e.Name())); err != nil {
			return nil, err
		}
	}
	if !found {
		return nil, fmt.Errorf("module %s %s: no licence text in %s", m.Path, m.Version, dir)
	}
	return out, nil
}

func appendText(out []file, of, path string) ([]file, error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, fmt.Errorf("cannot read the licence of %s: %w", of, err)
	}
	return append(out, file{licenseDir + of + "/" + filepath.Base(path), bytes.TrimPrefix(text, []byte("\ufeff"))}), nil
}

// escape returns a path or version as the module cache spells it: "!" and the lower case for an upper
// case letter.
func escape(s string) string {
	var out strings.Builder
	for _, r := range s {
		if unicode.IsUpper(r) {
			out.WriteByte('!')
		}
		out.WriteRune(unicode.ToLower(r))
	}
	return out.String()
}
