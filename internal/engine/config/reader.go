package config

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

// What is read at all: above this nothing is configuration, and reading it would hold
// up whoever waits, systemd's reload among them.
const (
	largest     = 1 << 20 // bytes of a file
	mostBytes   = 2 << 20 // of all files together
	mostFiles   = 100
	mostEntries = 1000 // of a directory, whatever they are
)

// reader reads configuration files that no other user than root can have written or
// replaced. It collects what is wrong with them.
type reader struct {
	problems []Problem

	root    string                 // directories above it are trusted
	unowned sanitize.Name          // a file that may belong to any user
	given   map[string]string      // texts that replace files
	without map[string]bool        // files that count as missing
	safe    map[sanitize.Name]bool // directories that were checked
}

// newReader returns a reader of files below root. given are texts that replace files,
// without are files that count as missing.
func newReader(root string, given map[string]string, without map[string]bool) *reader {
	return &reader{root: root, given: given, without: without, safe: make(map[sanitize.Name]bool)}
}

// acceptAnyOwner lets the file at path belong to any user. The caller must not use its content
// as configuration.
func (r *reader) acceptAnyOwner(path string) { r.unowned = sanitize.Named(path) }

// foundFile is a file that exists, or a text that replaces one.
type foundFile struct {
	path sanitize.Name
	size int64 // bytes
}

func (r *reader) fail(file sanitize.Name, line int, format string, args ...any) {
	r.problems = append(r.problems, Problem{File: file.String(), Line: line, Text: fmt.Sprintf(format, args...)})
}

// bounded reports whether the files are few and small enough to be read.
func (r *reader) bounded(found []foundFile) bool {
	in, sum := make(map[sanitize.Name]int), int64(0)
	var most sanitize.Name // the directory that holds most of them
	for _, f := range found {
		dir := f.path.Dir()
		if in[dir]++; in[dir] > in[most] {
			most = dir
		}
		sum += f.size
	}
	switch {
	case len(found) > mostFiles:
		r.fail(most, 0, "refused: there are %d configuration files, %d of them here; accepted: at most %d", len(found), in[most], mostFiles)
	case sum > mostBytes:
		r.fail(most, 0, "refused: the configuration files are %d bytes together; accepted: at most %d", sum, mostBytes)
	default:
		return true
	}
	return false
}

// list returns the files in a directory that end in suffix and are not hidden, in lexical
// order. A directory that does not exist has none.
func (r *reader) list(path, suffix string) []sanitize.Name {
	dir := sanitize.Named(path)
	entries, err := names(path)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		r.fail(dir, 0, "cannot read the directory: %s", cause(err))
		return nil
	}
	if len(entries) > mostEntries {
		r.fail(dir, 0, "refused: the directory holds more than %d entries", mostEntries)
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

// names returns the names in a directory, or one more than there may be.
func names(dir string) ([]string, error) {
	d, err := os.Open(dir)
	if err != nil {
		return nil, err
	}
	defer d.Close()
	all, err := d.Readdirnames(mostEntries + 1)
	if err != nil && err != io.EOF {
		return nil, err
	}
	return all, nil
}

// find returns the file at path. ok is false if it does not exist, or if it is refused, which
// is one of the problems then.
func (r *reader) find(path sanitize.Name) (f foundFile, ok bool) {
	if r.without[path.Raw()] {
		return foundFile{}, false
	}
	if text, ok := r.given[path.Raw()]; ok {
		return foundFile{path, int64(len(text))}, true
	}
	info, err := os.Stat(path.Raw())
	if errors.Is(err, fs.ErrNotExist) {
		r.dangling(path)
		return foundFile{}, false
	}
	if err != nil {
		r.fail(path, 0, "cannot read it: %s", cause(err))
		return foundFile{}, false
	}
	return foundFile{path, info.Size()}, r.plain(path, info) && (path == r.unowned || r.reached(path))
}

// text returns the text of a file, or the one that replaces it. ok is false if it cannot be
// read or is refused.
func (r *reader) text(path sanitize.Name) (text string, ok bool) {
	if text, ok := r.given[path.Raw()]; ok {
		return text, true
	}
	return r.readFile(path)
}

// dangling complains of a symbolic link that leads nowhere; a file that is not
// there at all is no layer.
func (r *reader) dangling(path sanitize.Name) {
	if _, err := os.Lstat(path.Raw()); err == nil {
		r.fail(path, 0, "refused: it is a symbolic link to a file that does not exist")
	}
}

// readFile opens the file without waiting for a writer of a FIFO, and judges what
// was opened: the name may mean something else by now.
func (r *reader) readFile(path sanitize.Name) (string, bool) {
	f, err := os.OpenFile(path.Raw(), os.O_RDONLY|syscall.O_NONBLOCK|syscall.O_NOCTTY, 0)
	if err != nil {
		r.fail(path, 0, "cannot read it: %s", cause(err))
		return "", false
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		r.fail(path, 0, "cannot read it: %s", cause(err))
		return "", false
	}
	if !r.plain(path, info) {
		return "", false
	}
	content, err := readAtMost(f)
	if err != nil {
		r.fail(path, 0, "cannot read it: %s", cause(err))
		return "", false
	}
	return r.accept(path, content)
}

// readAtMost reads one byte more than a file may have, so that a larger file is recognised.
func readAtMost(from io.Reader) ([]byte, error) {
	return io.ReadAll(io.LimitReader(from, largest+1))
}

// accept returns content as the text of a file, unless it is too large or not UTF-8.
func (r *reader) accept(path sanitize.Name, content []byte) (text string, ok bool) {
	switch {
	case len(content) > largest:
		r.fail(path, 0, "refused: it is larger than 1 MiB")
	case !utf8.Valid(content):
		r.fail(path, badLine(content), "refused: it is not UTF-8 text")
	default:
		return string(content), true
	}
	return "", false
}

// checkText returns what is wrong with a text that is too large or not UTF-8.
func checkText(file string, text []byte) *Problem {
	switch {
	case len(text) > largest:
		return &Problem{File: file, Line: 1, Text: "larger than 1 MiB"}
	case !utf8.Valid(text):
		return &Problem{File: file, Line: badLine(text), Text: "not UTF-8 text"}
	}
	return nil
}

// badLine is the line of the first byte that is not UTF-8.
func badLine(text []byte) int {
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

// cause is an error without the path that the problem names already.
func cause(err error) string {
	var at *fs.PathError
	if errors.As(err, &at) {
		err = at.Err
	}
	return sanitize.Text(err.Error())
}
