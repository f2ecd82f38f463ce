package config

import (
	"fmt"
	"io"
	"unicode/utf8"

	"dcm/internal/sanitize"
)

// WithAdminText returns the paths with a text in the place of the administrator's file. It
// is looked at and not used, and so may come from anywhere: a pipe, a file of
// anyone's. name is what problems call it.
func (p Paths) WithAdminText(name string, from io.Reader) (Paths, error) {
	text, err := io.ReadAll(io.LimitReader(from, largest+1))
	file := sanitize.Named(name)
	switch {
	case err != nil:
		return p, fmt.Errorf("cannot read %s: %s", file, cause(err))
	case len(text) > largest:
		return p, &Errors{[]Problem{{File: file.String(), Text: "refused: it is larger than 1 MiB"}}}
	case !utf8.Valid(text):
		return p, &Errors{[]Problem{{File: file.String(), Line: badLine(text), Text: "refused: it is not UTF-8 text"}}}
	}
	p.Admin, p.Judged, p.given = name, true, map[string]string{name: string(text)}
	return p, nil
}
