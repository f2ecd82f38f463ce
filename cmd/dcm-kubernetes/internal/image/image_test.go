package image_test

import (
	"crypto/sha256"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"testing"
	"time"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/layout"
	"github.com/google/go-containerregistry/pkg/v1/validate"

	"dcm/cmd/dcm-kubernetes/internal/image"
)

func write(t *testing.T) string {
	t.Helper()
	program := filepath.Join(t.TempDir(), "program")
	if err := os.WriteFile(program, []byte("of some bytes"), 0o700); err != nil {
		t.Fatal(err)
	}
	dir := filepath.Join(t.TempDir(), "oci")
	about := image.About{Name: "dcm-kubernetes", Version: "1.2.3", Made: time.Unix(1700000000, 0).UTC()}
	if err := image.Write(dir, about, []image.Program{{Arch: "amd64", Path: program}, {Arch: "arm64", Path: program}}); err != nil {
		t.Fatal(err)
	}
	return dir
}

// sums returns the checksums of all files below a directory.
func sums(t *testing.T, dir string) string {
	t.Helper()
	out := ""
	err := fs.WalkDir(os.DirFS(dir), ".", func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		text, err := os.ReadFile(filepath.Join(dir, path))
		out += fmt.Sprintf("%s %x\n", path, sha256.Sum256(text))
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return out
}

func TestImage_Reproducible(t *testing.T) {
	if a, b := sums(t, write(t)), sums(t, write(t)); a != b {
		t.Errorf("two builds differ:\n%s\nand\n%s", a, b)
	}
}

func TestImage_BothArchitectures(t *testing.T) {
	top, err := layout.ImageIndexFromPath(write(t))
	if err != nil {
		t.Fatal(err)
	}
	if err := validate.Index(top); err != nil {
		t.Error(err)
	}
	manifest, err := top.IndexManifest()
	if err != nil || len(manifest.Manifests) != 1 {
		t.Fatalf("the layout has %+v, %v", manifest, err)
	}
	index, err := top.ImageIndex(manifest.Manifests[0].Digest)
	if err != nil {
		t.Fatal(err)
	}
	images, err := index.IndexManifest()
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, m := range images.Manifests {
		got = append(got, m.Platform.String()+" "+described(t, index, m.Digest))
	}
	want := "[linux/amd64 linux/amd64 [/dcm-kubernetes] 0:0 1 linux/arm64 linux/arm64 [/dcm-kubernetes] 0:0 1]"
	if fmt.Sprint(got) != want {
		t.Errorf("the images are\n%v, want\n%s", got, want)
	}
}

func described(t *testing.T, index v1.ImageIndex, digest v1.Hash) string {
	t.Helper()
	img, err := index.Image(digest)
	if err != nil {
		t.Fatal(err)
	}
	c, err := img.ConfigFile()
	if err != nil {
		t.Fatal(err)
	}
	return fmt.Sprintf("%s/%s %v %s %d", c.OS, c.Architecture, c.Config.Entrypoint, c.Config.User, len(c.RootFS.DiffIDs))
}

// Modes and times of the files do not affect the image.
func TestTree_Reproducible(t *testing.T) {
	made := func(mode os.FileMode) string {
		tree := t.TempDir()
		for name, run := range map[string]os.FileMode{"dcm-host": 0o100, "usr/bin/dcm": 0o100, "usr/share/dcm/dcm.toml": 0} {
			path := filepath.Join(tree, name)
			if err := os.MkdirAll(filepath.Dir(path), 0o700|mode); err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(path, []byte(name), 0o600|mode|run); err != nil {
				t.Fatal(err)
			}
		}
		dir := filepath.Join(t.TempDir(), "oci")
		if err := image.Write(dir, image.About{Name: "dcm-host", Version: "1"}, []image.Program{{Arch: "arm64", Path: tree}}); err != nil {
			t.Fatal(err)
		}
		return sums(t, dir)
	}
	if a, b := made(0), made(0o055); a != b {
		t.Errorf("two builds differ:\n%s\nand\n%s", a, b)
	}
}

func TestFailedImage_LeavesNothing(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "oci")
	if err := image.Write(dir, image.About{}, []image.Program{{Arch: "amd64", Path: "/nonexistent"}}); err == nil {
		t.Error("no error")
	}
	if _, err := os.Stat(dir); err == nil {
		t.Error("files are left")
	}
}
