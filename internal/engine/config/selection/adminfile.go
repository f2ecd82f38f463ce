package selection

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"

	"dcm/internal/engine/config"
	"dcm/internal/engine/config/source"
	"dcm/internal/sanitize"
)

// admin is the administrator's file as it was read.
type admin struct {
	path string
	text string
	info fs.FileInfo // nil if there was no file
}

// openAdminFile reads the administrator's file, or the template if it does not exist.
func openAdminFile(p config.Paths) (admin, error) {
	r := p.NewReader()
	if _, found := r.Find(sanitize.Named(p.Admin)); len(r.Problems) == 0 && !found {
		text, err := os.ReadFile(p.Template)
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return admin{}, err
		}
		return admin{path: p.Admin, text: string(text)}, nil
	}
	// Follow a link, so that the link itself is kept.
	path, err := filepath.EvalSymlinks(p.Admin)
	if err != nil {
		path = p.Admin // the reader reports the problem
	}
	info, err := os.Lstat(path)
	text, ok := r.Text(sanitize.Named(p.Admin))
	if !ok || len(r.Problems) > 0 {
		return admin{}, source.NewErrors(r.Problems...)
	}
	return admin{path: path, text: text, info: info}, err
}

// replace writes another text, unless the file was changed since it was read.
func (a admin) replace(text string) error {
	if text == a.text && a.info != nil {
		return nil
	}
	if err := os.MkdirAll(filepath.Dir(a.path), 0o755); err != nil {
		return err
	}
	return source.ReplaceFile(a.path, text, a.info)
}
