package supportbundle

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"context"
	"errors"
	"io"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
)

func plainText(s string) func(context.Context) ([]byte, error) {
	return func(context.Context) ([]byte, error) { return []byte(s), nil }
}

// unpack returns the files of an archive by name.
func unpack(t *testing.T, packed []byte) map[string]string {
	t.Helper()
	zip, err := gzip.NewReader(bytes.NewReader(packed))
	if err != nil {
		t.Fatal(err)
	}
	files := make(map[string]string)
	for archive := tar.NewReader(zip); ; {
		h, err := archive.Next()
		if errors.Is(err, io.EOF) {
			return files
		}
		if err != nil {
			t.Fatal(err)
		}
		content, err := io.ReadAll(archive)
		if err != nil {
			t.Fatal(err)
		}
		files[h.Name] = string(content)
	}
}

func TestWrite_FailedParts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		released := make(chan struct{})
		parts := []Part{
			{"a.json", "what a is", plainText("{}")},
			{"none.txt", "nothing", func(context.Context) ([]byte, error) { return nil, errors.New("no such\nthing") }},
			{"half.txt", "a half", func(context.Context) ([]byte, error) { return []byte("half"), errors.New("cut off") }},
			{"hang.txt", "a hang", func(context.Context) ([]byte, error) { <-released; return nil, nil }},
			{"empty.txt", "an empty one", plainText("\n")},
			{"dir/long.txt", "a log", plainText(strings.Repeat("x", maxPartSize) + "the end")},
		}
		var b bytes.Buffer
		now := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
		if err := Write(t.Context(), &b, "r", now, "About it.", parts); err != nil {
			t.Fatal(err)
		}
		close(released)
		files := unpack(t, b.Bytes())
		long := files["r/dir/long.txt"]
		if len(long) != maxPartSize || !strings.HasSuffix(long, "the end") {
			t.Errorf("size of the long part: %d bytes", len(long))
		}
		delete(files, "r/dir/long.txt")
		want := map[string]string{
			"r/CONTENTS.txt": `About it.
made at 2026-01-02T03:04:05Z

a.json                              2 bytes  what a is
none.txt                            0 bytes  nothing (missing: no such; thing)
half.txt                            4 bytes  a half (cut off)
hang.txt                            0 bytes  a hang (missing: context deadline exceeded)
empty.txt                           1 bytes  an empty one (empty)
dir/long.txt                  4194304 bytes  a log (only the last 4 MiB)
`,
			"r/a.json": "{}", "r/half.txt": "half", "r/empty.txt": "\n",
		}
		if diff := cmp.Diff(want, files); diff != "" {
			t.Errorf("files (-want +got):\n%s", diff)
		}
	})
}
