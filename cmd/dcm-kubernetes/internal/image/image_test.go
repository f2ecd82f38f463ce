package image_test

import (
	"archive/tar"
	"crypto/sha256"
	"debug/buildinfo"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/layout"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
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
	index, images := only(t, top)
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

// The image has the licence texts of all modules in its program.
func TestProgram_Licenses(t *testing.T) {
	program := filepath.Join(t.TempDir(), "make")
	if out, err := exec.Command("go", "build", "-o", program, "./make").CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	info, err := buildinfo.ReadFile(program)
	if err != nil || len(info.Deps) == 0 {
		t.Fatalf("%+v, %v", info, err)
	}
	root := t.TempDir()
	put := func(path string) {
		path = filepath.Join(root, path)
		if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o755), os.WriteFile(path, []byte("text"), 0o644)); err != nil {
			t.Fatal(err)
		}
	}
	put("LICENSE")
	for _, m := range info.Deps[1:] {
		put(m.Path + "@" + m.Version + "/LICENSE.txt")
	}
	about := image.About{Name: "dcm-kubernetes", Version: "1", License: "MIT", Revision: "abc", Licenses: &image.Licenses{Own: []string{filepath.Join(root, "LICENSE")}, Modules: root, Go: root}}
	dir := filepath.Join(t.TempDir(), "oci")
	if err := image.Write(dir, about, []image.Program{{Arch: "amd64", Path: program}}); err == nil || !strings.Contains(err.Error(), info.Deps[0].Path) {
		t.Errorf("error is %v: %s has no licence text", err, info.Deps[0].Path)
	}
	put(info.Deps[0].Path + "@" + info.Deps[0].Version + "/COPYING")
	put(info.Deps[0].Path + "@" + info.Deps[0].Version + "/main.go")
	if err := image.Write(dir, about, []image.Program{{Arch: "amd64", Path: program}}); err != nil {
		t.Fatal(err)
	}
	names := files(t, dir)
	want := []string{"usr/share/licenses/dcm-kubernetes/LICENSE", "usr/share/licenses/go/LICENSE", "usr/share/licenses/" + info.Deps[0].Path + "/COPYING"}
	for _, m := range info.Deps[1:] {
		want = append(want, "usr/share/licenses/"+m.Path+"/LICENSE.txt")
	}
	for _, w := range want {
		if !slices.Contains(names, w) {
			t.Errorf("%s is missing: %q", w, names)
		}
	}
	if len(names) != len(want)+1 {
		t.Errorf("the image has %q", names)
	}
}

// only returns the only index of a layout, with its list of images.
func only(t *testing.T, top v1.ImageIndex) (v1.ImageIndex, *v1.IndexManifest) {
	t.Helper()
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
	return index, images
}

// files lists the files of the layer of the first image.
func files(t *testing.T, dir string) (names []string) {
	t.Helper()
	top, err := layout.ImageIndexFromPath(dir)
	if err != nil {
		t.Fatal(err)
	}
	index, images := only(t, top)
	img, err := index.Image(images.Manifests[0].Digest)
	if err != nil {
		t.Fatal(err)
	}
	content := mutate.Extract(img)
	defer content.Close()
	for r := tar.NewReader(content); ; {
		h, err := r.Next()
		if err == io.EOF {
			return names
		}
		if err != nil {
			t.Fatal(err)
		}
		names = append(names, h.Name)
	}
}
