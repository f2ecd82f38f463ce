// Package supportbundle packs the output of several sources into one archive for support. It must not
// import the sources. If a source fails or hangs, only its part is missing. The first file of the
// archive lists the parts, and why others are missing.
package supportbundle

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"context"
	"fmt"
	"io"
	"path"
	"strings"
	"time"

	"dcm/internal/text"
)

// Contents is the name of the archive's first file.
const Contents = "CONTENTS.txt"

// maxPartSize limits a part in bytes. Of a longer part only the end is kept, since the end of a log is
// the most useful.
const maxPartSize = 4 << 20

// partTimeout limits the time to read one part.
const partTimeout = 20 * time.Second

// Part is one file of the archive.
type Part struct {
	Name        string // path in the archive
	Description string // content and source of the part, for the list
	Read        func(context.Context) ([]byte, error)
}

// Write writes the parts as a tar.gz, below a directory with the name dir.
func Write(ctx context.Context, w io.Writer, dir string, now time.Time, about string, parts []Part) error {
	texts := make([][]byte, len(parts))
	var list strings.Builder
	fmt.Fprintf(&list, "%s\nmade at %s\n\n", about, now.Format(time.RFC3339))
	for i, p := range parts {
		text, err := read(ctx, p)
		if len(text) > maxPartSize {
			text = text[len(text)-maxPartSize:]
			err = fmt.Errorf("only the last %d MiB", maxPartSize>>20)
		}
		texts[i] = text
		fmt.Fprintf(&list, "%-28s %8d bytes  %s%s\n", p.Name, len(text), p.Description, remark(text, err))
	}
	zip := gzip.NewWriter(w)
	archive := tar.NewWriter(zip)
	if err := add(archive, path.Join(dir, Contents), now, []byte(list.String())); err != nil {
		return err
	}
	for i, p := range parts {
		if texts[i] == nil {
			continue
		}
		if err := add(archive, path.Join(dir, p.Name), now, texts[i]); err != nil {
			return err
		}
	}
	if err := archive.Close(); err != nil {
		return err
	}
	return zip.Close()
}

// read reads one part. If the part fails, read returns what it produced before. If it times out, read
// returns nothing.
func read(ctx context.Context, p Part) ([]byte, error) {
	ctx, cancel := context.WithTimeout(ctx, partTimeout)
	defer cancel()
	type answer struct {
		text []byte
		err  error
	}
	answers := make(chan answer, 1)
	go func() {
		text, err := p.Read(ctx)
		answers <- answer{text, err}
	}()
	select {
	case a := <-answers:
		return a.text, a.err
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

func remark(content []byte, err error) string {
	switch {
	case err != nil && content == nil:
		return " (missing: " + text.OneLine(err.Error()) + ")"
	case err != nil:
		return " (" + text.OneLine(err.Error()) + ")"
	case len(bytes.TrimSpace(content)) == 0:
		return " (empty)"
	}
	return ""
}

func add(archive *tar.Writer, name string, now time.Time, text []byte) error {
	// The files belong to the user who unpacks them, not to a user of this host.
	h := &tar.Header{Name: name, Mode: 0o644, Size: int64(len(text)), ModTime: now, Format: tar.FormatPAX}
	if err := archive.WriteHeader(h); err != nil {
		return err
	}
	_, err := archive.Write(text)
	return err
}
