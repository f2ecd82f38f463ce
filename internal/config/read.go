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

	"dcm/internal/foreign"
)

// largest is the size above which a file is no configuration.
const largest = 1 << 20

// layers reads every file there is, in order.
func (p Paths) layers() ([]layer, []Problem) {
	r := &reader{seen: make(map[foreign.Name]bool)}
	r.dropins(p.Shipped)
	r.file(foreign.Named(p.Kubernetes), readKubernetes)
	r.file(foreign.Named(p.Admin), readTOML)
	r.dropins(p.Local)
	lasting := len(r.layers)
	r.dropins(p.Runtime)
	for i := range r.layers[lasting:] {
		r.layers[lasting+i].passing = true
	}
	return r.layers, r.problems
}

type reader struct {
	layers   []layer
	problems []Problem
	seen     map[foreign.Name]bool // directories judged: whether they are safe
}

func (r *reader) fail(file foreign.Name, line int, format string, args ...any) {
	r.problems = append(r.problems, Problem{File: file.String(), Line: line, Text: fmt.Sprintf(format, args...)})
}

// dropins reads the files of a directory that count: those whose name ends in
// .toml and is not hidden, as a temporary file of an editor is.
func (r *reader) dropins(path string) {
	dir := foreign.Named(path)
	entries, err := os.ReadDir(dir.Raw()) // in lexical order
	if errors.Is(err, fs.ErrNotExist) {
		return
	}
	if err != nil {
		r.fail(dir, 0, "cannot read the directory: %s", cause(err))
		return
	}
	names := slices.DeleteFunc(entries, func(e fs.DirEntry) bool {
		return strings.HasPrefix(e.Name(), ".") || !strings.HasSuffix(e.Name(), ".toml")
	})
	if len(names) == 0 || !r.safe(dir.Dir()) {
		return
	}
	for _, e := range names {
		r.file(dir.Join(e.Name()), readTOML)
	}
}

func (r *reader) file(path foreign.Name, form func(*checker, layer) *node) {
	info, err := os.Stat(path.Raw())
	if errors.Is(err, fs.ErrNotExist) {
		r.dangling(path)
		return
	}
	if err != nil {
		r.fail(path, 0, "cannot read it: %s", cause(err))
		return
	}
	if !r.plain(path, info) || !r.safe(path.Dir()) {
		return
	}
	if real, err := filepath.EvalSymlinks(path.Raw()); err == nil && !r.safe(foreign.Named(real).Dir()) {
		return
	}
	if text, ok := r.text(path); ok {
		r.layers = append(r.layers, layer{file: path.String(), text: text, form: form})
	}
}

// dangling complains of a symbolic link that leads nowhere; a file that is not
// there at all is no layer.
func (r *reader) dangling(path foreign.Name) {
	if _, err := os.Lstat(path.Raw()); err == nil {
		r.fail(path, 0, "refused: it is a symbolic link to a file that does not exist")
	}
}

// text opens the file without waiting for a writer of a FIFO, and judges what
// was opened: the name may mean something else by now.
func (r *reader) text(path foreign.Name) (string, bool) {
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
	return foreign.Text(err.Error())
}
