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

// layers reads every file there is, in order, once it is clear that they are not too
// many.
func (p Paths) layers() ([]layer, []Problem) {
	r := newReader(p)
	r.find(p)
	if r.bounded() {
		for _, f := range r.found {
			r.read(f)
		}
	}
	return r.layers, r.problems
}

// origin of a layer: a file that is there, or text that stands for one.
type origin struct {
	path    sanitize.Name
	size    int64
	form    func(*checker, layer) *node
	passing bool
}

type reader struct {
	top      string            // whatever is above it is trusted
	judged   sanitize.Name     // a file that may belong to anyone
	agent    sanitize.Name     // the file of agents
	given    map[string]string // texts to take in the place of files
	without  map[string]bool   // files to take as not there
	found    []origin
	layers   []layer
	problems []Problem
	seen     map[sanitize.Name]bool // directories judged: whether they are safe
}

func newReader(p Paths) *reader {
	r := &reader{top: p.Root, agent: sanitize.Named(p.Agent), given: p.given, without: p.without, seen: make(map[sanitize.Name]bool)}
	if p.Judged {
		r.judged = sanitize.Named(p.Admin)
	}
	return r
}

func (r *reader) fail(file sanitize.Name, line int, format string, args ...any) {
	r.problems = append(r.problems, Problem{File: file.String(), Line: line, Text: fmt.Sprintf(format, args...)})
}

// find notes the files there are, in the order in which they count.
func (r *reader) find(p Paths) {
	r.dropins(p.Shipped, false)
	r.note(sanitize.Named(p.Kubernetes), readKubernetes, false)
	r.note(sanitize.Named(p.Admin), readTOML, false)
	r.note(sanitize.Named(p.Agent), readAgent, false)
	r.dropins(p.Local, false)
	r.dropins(p.Runtime, true)
}

// bounded refuses what is too much before any of it is read.
func (r *reader) bounded() bool {
	in, sum := make(map[sanitize.Name]int), int64(0)
	var most sanitize.Name // the directory that holds most of them
	for _, f := range r.found {
		dir := f.path.Dir()
		if in[dir]++; in[dir] > in[most] {
			most = dir
		}
		sum += f.size
	}
	switch {
	case len(r.found) > mostFiles:
		r.fail(most, 0, "refused: there are %d configuration files, %d of them here; accepted: at most %d", len(r.found), in[most], mostFiles)
	case sum > mostBytes:
		r.fail(most, 0, "refused: the configuration files are %d bytes together; accepted: at most %d", sum, mostBytes)
	default:
		return true
	}
	return false
}

// dropins notes the files of a directory that count: those whose name ends in
// .toml and is not hidden, as a temporary file of an editor is.
func (r *reader) dropins(path string, passing bool) {
	dir := sanitize.Named(path)
	entries, err := names(path)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		r.fail(dir, 0, "cannot read the directory: %s", cause(err))
		return
	}
	if len(entries) > mostEntries {
		r.fail(dir, 0, "refused: the directory holds more than %d entries", mostEntries)
		return
	}
	for file := range r.given {
		if filepath.Dir(file) == path {
			entries = append(entries, filepath.Base(file))
		}
	}
	slices.Sort(entries)
	for _, name := range slices.Compact(entries) {
		if strings.HasPrefix(name, ".") || !strings.HasSuffix(name, ".toml") {
			continue
		}
		form := readTOML
		if passing && name == SelectionFile {
			form = readSelection
		}
		r.note(dir.Join(name), form, passing)
	}
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

func (r *reader) note(path sanitize.Name, form func(*checker, layer) *node, passing bool) {
	if r.without[path.Raw()] {
		return
	}
	f := origin{path: path, form: form, passing: passing}
	if text, ok := r.given[path.Raw()]; ok {
		f.size = int64(len(text))
		r.found = append(r.found, f)
		return
	}
	info, err := os.Stat(path.Raw())
	if errors.Is(err, fs.ErrNotExist) {
		r.dangling(path)
		return
	}
	if err != nil {
		r.fail(path, 0, "cannot read it: %s", cause(err))
		return
	}
	if r.plain(path, info) && (path == r.judged || r.reached(path)) {
		f.size = info.Size()
		r.found = append(r.found, f)
	}
}

func (r *reader) read(f origin) {
	text, ok := r.given[f.path.Raw()]
	if !ok {
		if text, ok = r.text(f.path); !ok {
			return
		}
	}
	r.layers = append(r.layers, layer{file: f.path.String(), text: text, form: f.form, passing: f.passing, agent: f.path == r.agent})
}

// dangling complains of a symbolic link that leads nowhere; a file that is not
// there at all is no layer.
func (r *reader) dangling(path sanitize.Name) {
	if _, err := os.Lstat(path.Raw()); err == nil {
		r.fail(path, 0, "refused: it is a symbolic link to a file that does not exist")
	}
}

// text opens the file without waiting for a writer of a FIFO, and judges what
// was opened: the name may mean something else by now.
func (r *reader) text(path sanitize.Name) (string, bool) {
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
	text, err := io.ReadAll(io.LimitReader(f, largest+1))
	switch {
	case err != nil:
		r.fail(path, 0, "cannot read it: %s", cause(err))
	case len(text) > largest:
		r.fail(path, 0, "refused: it is larger than 1 MiB")
	case !utf8.Valid(text):
		r.fail(path, badLine(text), "refused: it is not UTF-8 text")
	default:
		return string(text), true
	}
	return "", false
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
