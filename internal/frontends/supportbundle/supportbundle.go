// Package supportbundle packs what several sources tell into one archive for support. It
// knows nothing of the sources, and one that fails or hangs costs no more than its own
// part: the archive's first file lists what is in it and what is not, with the reason.
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
)

// Contents is the name of the archive's first file.
const Contents = "CONTENTS.txt"

// limit keeps one part from making the archive too large to send; of a longer one
// the end is kept, since the end of a log is what matters.
const limit = 4 << 20

// patience is how long one part may take.
const patience = 20 * time.Second

// Part is one file of the archive.
type Part struct {
	Name string // its path in the archive
	From string // what it is and where it is from, for the reader of the list
	Read func(context.Context) ([]byte, error)
}

// Write writes the parts, below a directory of that name, as a tar.gz.
func Write(ctx context.Context, w io.Writer, dir string, now time.Time, about string, parts []Part) error {
	texts := make([][]byte, len(parts))
	var list strings.Builder
	fmt.Fprintf(&list, "%s\nmade at %s\n\n", about, now.Format(time.RFC3339))
	for i, p := range parts {
		text, err := read(ctx, p)
		if len(text) > limit {
			text = text[len(text)-limit:]
			err = fmt.Errorf("only the last %d MiB", limit>>20)
		}
		texts[i] = text
		fmt.Fprintf(&list, "%-28s %8d bytes  %s%s\n", p.Name, len(text), p.From, remark(text, err))
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

// read reads one part. What it could tell before it failed is worth having; what
// does not answer at all is left behind.
func read(ctx context.Context, p Part) ([]byte, error) {
	ctx, cancel := context.WithTimeout(ctx, patience)
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

func remark(text []byte, err error) string {
	switch {
	case err != nil && text == nil:
		return " (missing: " + oneLine(err) + ")"
	case err != nil:
		return " (" + oneLine(err) + ")"
	case len(bytes.TrimSpace(text)) == 0:
		return " (empty)"
	}
	return ""
}

func oneLine(err error) string {
	return strings.ReplaceAll(strings.TrimSpace(err.Error()), "\n", "; ")
}

func add(archive *tar.Writer, name string, now time.Time, text []byte) error {
	// The files are for whoever unpacks them, and of no user of this host.
	h := &tar.Header{Name: name, Mode: 0o644, Size: int64(len(text)), ModTime: now, Format: tar.FormatPAX}
	if err := archive.WriteHeader(h); err != nil {
		return err
	}
	_, err := archive.Write(text)
	return err
}
