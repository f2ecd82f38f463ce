package source

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"unicode/utf8"

	"dcm/internal/sanitize"
)

// Limits of what is read. Larger files would delay callers, such as a reload of systemd.
const (
	MaxFileBytes  = 1 << 20 // bytes of a file
	maxTotalBytes = 2 << 20 // of all files together
	maxFiles      = 100
	maxEntries    = 1000 // of a directory, of any type
)

// Reader reads configuration files that only root can write or replace. It collects problems.
type Reader struct {
	Problems []Problem

	root    string                 // directories above it are trusted
	unowned sanitize.Name          // a file that may belong to any user
	given   map[string]string      // texts that replace files
	without map[string]bool        // files that are treated as missing
	safe    map[sanitize.Name]bool // directories that were checked
}

// NewReader returns a reader of files below root. given are texts that replace files,
// without are files that are treated as missing.
func NewReader(root string, given map[string]string, without map[string]bool) *Reader {
	return &Reader{root: root, given: given, without: without, safe: make(map[sanitize.Name]bool)}
}

// AcceptAnyOwner lets the file at path belong to any user. The caller must not use its content
// as configuration.
func (r *Reader) AcceptAnyOwner(path string) { r.unowned = sanitize.Named(path) }

// File is a file that exists, or a text that replaces one.
type File struct {
	Path sanitize.Name
	size int64 // bytes
}

func (r *Reader) fail(file sanitize.Name, line int, format string, args ...any) {
	r.Problems = append(r.Problems, Problem{File: file.String(), Line: line, Text: fmt.Sprintf(format, args...)})
}

// Bounded reports whether the number and the size of the files are within the limits.
func (r *Reader) Bounded(found []File) bool {
	in, sum := make(map[sanitize.Name]int), int64(0)
	var most sanitize.Name // the directory with the most files
	for _, f := range found {
		dir := f.Path.Dir()
		if in[dir]++; in[dir] > in[most] {
			most = dir
		}
		sum += f.size
	}
	switch {
	case len(found) > maxFiles:
		r.fail(most, 0, "too many configuration files (found %d, %d of them here, want at most %d)", len(found), in[most], maxFiles)
	case sum > maxTotalBytes:
		r.fail(most, 0, "configuration files too large (found %d bytes in total, want at most %d)", sum, maxTotalBytes)
	default:
		return true
	}
	return false
}

// List returns the files in a directory that end in suffix and are not hidden, in lexical
// order. A directory that does not exist has none.
func (r *Reader) List(path, suffix string) []sanitize.Name {
	dir := sanitize.Named(path)
	entries, err := names(path)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		r.fail(dir, 0, "cannot read the directory: %s", Cause(err))
		return nil
	}
	if len(entries) > maxEntries {
		r.fail(dir, 0, "too many entries in the directory (want at most %d)", maxEntries)
		return nil
	}
	for file := range r.given {
		if filepath.Dir(file) == path {
			entries = append(entries, filepath.Base(file))
		}
	}
	slices.Sort(entries)
	var files []sanitize.Name
	for _, name := range slices.Compact(entries) {
		if !strings.HasPrefix(name, ".") && strings.HasSuffix(name, suffix) {
			files = append(files, dir.Join(name))
		}
	}
	return files
}

// names returns the names in a directory, at most one more than the limit.
func names(dir string) ([]string, error) {
	d, err := os.Open(dir)
	if err != nil {
		return nil, err
	}
	defer d.Close()
	all, err := d.Readdirnames(maxEntries + 1)
	if err != nil && err != io.EOF {
		return nil, err
	}
	return all, nil
}

// Find returns the file at path. ok is false if the file does not exist, or if it is refused with a
// problem.
func (r *Reader) Find(path sanitize.Name) (f File, ok bool) {
	if r.without[path.Raw()] {
		return File{}, false
	}
	if text, ok := r.given[path.Raw()]; ok {
		return File{path, int64(len(text))}, true
	}
	info, err := os.Stat(path.Raw())
	if errors.Is(err, fs.ErrNotExist) {
		r.dangling(path)
		return File{}, false
	}
	if err != nil {
		r.fail(path, 0, "cannot read it: %s", Cause(err))
		return File{}, false
	}
	return File{path, info.Size()}, r.plain(path, info) && (path == r.unowned || r.reached(path))
}

// Text returns the text of a file, or the one that replaces it. ok is false if it cannot be
// read or is refused.
func (r *Reader) Text(path sanitize.Name) (text string, ok bool) {
	if text, ok := r.given[path.Raw()]; ok {
		return text, true
	}
	return r.readFile(path)
}

// dangling reports a symbolic link to a missing file. A missing file itself is no problem.
func (r *Reader) dangling(path sanitize.Name) {
	if _, err := os.Lstat(path.Raw()); err == nil {
		r.fail(path, 0, "symbolic link to a file that does not exist")
	}
}

// readFile opens the file without waiting for the writer of a FIFO. It checks the opened file, since
// the path may have been replaced.
func (r *Reader) readFile(path sanitize.Name) (string, bool) {
	f, err := os.OpenFile(path.Raw(), os.O_RDONLY|syscall.O_NONBLOCK|syscall.O_NOCTTY, 0)
	if err != nil {
		r.fail(path, 0, "cannot read it: %s", Cause(err))
		return "", false
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		r.fail(path, 0, "cannot read it: %s", Cause(err))
		return "", false
	}
	if !r.plain(path, info) {
		return "", false
	}
	content, err := ReadAtMost(f)
	if err != nil {
		r.fail(path, 0, "cannot read it: %s", Cause(err))
		return "", false
	}
	return r.Accept(path, content)
}

// ReadAtMost reads one byte more than a file may have, so that a larger file is recognised.
func ReadAtMost(from io.Reader) ([]byte, error) {
	return io.ReadAll(io.LimitReader(from, MaxFileBytes+1))
}

// Accept returns content as the text of a file, unless it is too large or not UTF-8.
func (r *Reader) Accept(path sanitize.Name, content []byte) (text string, ok bool) {
	if p := CheckText(path.String(), content); p != nil {
		r.Problems = append(r.Problems, *p)
		return "", false
	}
	return string(content), true
}

// CheckText returns the problem of a text that is too large or not UTF-8, or nil.
func CheckText(file string, text []byte) *Problem {
	switch {
	case len(text) > MaxFileBytes:
		return &Problem{File: file, Line: 1, Text: "too large (want at most 1 MiB)"}
	case !utf8.Valid(text):
		return &Problem{File: file, Line: invalidUTF8Line(text), Text: "not UTF-8 text"}
	}
	return nil
}

// invalidUTF8Line returns the line of the first byte that is not UTF-8.
func invalidUTF8Line(text []byte) int {
	line := 1
	for len(text) > 0 {
		r, n := utf8.DecodeRune(text)
		if r == utf8.RuneError && n == 1 {
			break
		}
		if r == '\n' {
			line++
		}
		text = text[n:]
	}
	return line
}
