package image_test

import (
	"archive/tar"
	"crypto/sha256"
	"debug/buildinfo"
	"encoding/json"
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
	"github.com/google/go-containerregistry/pkg/v1/types"
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
	if err := validateBills(t, dir, info); err != nil {
		t.Error(err)
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

// validateBills checks the manifest with the bill of materials of the only image, as a registry's list of
// referrers returns it.
func validateBills(t *testing.T, dir string, program *buildinfo.BuildInfo) error {
	t.Helper()
	top, err := layout.ImageIndexFromPath(dir)
	if err != nil {
		return err
	}
	list, err := top.IndexManifest()
	if err != nil {
		return err
	}
	if len(list.Manifests) != 2 || list.Manifests[0].Annotations["org.opencontainers.image.ref.name"] != "1" || list.Manifests[1].ArtifactType != "application/vnd.cyclonedx+json" {
		return fmt.Errorf("the layout has %+v", list.Manifests)
	}
	bill, err := top.Image(list.Manifests[1].Digest)
	if err != nil {
		return err
	}
	m, err := bill.Manifest()
	if err != nil {
		return err
	}
	_, images := only(t, top)
	if m.Subject == nil || m.Subject.Digest != images.Manifests[0].Digest || m.Subject.Size != images.Manifests[0].Size || m.ArtifactType != list.Manifests[1].ArtifactType || len(m.Layers) != 1 {
		return fmt.Errorf("the manifest is %+v, with the subject %+v", m, m.Subject)
	}
	for _, blob := range []v1.Hash{m.Config.Digest, m.Layers[0].Digest} {
		text, err := os.ReadFile(filepath.Join(dir, "blobs/sha256", blob.Hex))
		if err != nil || fmt.Sprintf("%x", sha256.Sum256(text)) != blob.Hex {
			return fmt.Errorf("blob %s: %v", blob, err)
		}
	}
	text, err := os.ReadFile(filepath.Join(dir, "blobs/sha256", m.Layers[0].Digest.Hex))
	if err != nil {
		return err
	}
	var document struct {
		BOMFormat string
		Metadata  struct {
			Component struct{ Name, Version string }
		}
		Components []struct{ Name, Version, PURL string }
	}
	if err := json.Unmarshal(text, &document); err != nil {
		return err
	}
	if document.BOMFormat != "CycloneDX" || document.Metadata.Component.Name != "dcm-kubernetes" || len(document.Components) != len(program.Deps)+1 {
		return fmt.Errorf("the bill is %s", text)
	}
	for i, d := range program.Deps {
		if c := document.Components[i+1]; c.Name != d.Path || c.Version != d.Version || c.PURL != "pkg:golang/"+d.Path+"@"+d.Version {
			return fmt.Errorf("component %+v, want %s %s", c, d.Path, d.Version)
		}
	}
	return nil
}

// only returns the only index of a layout, with its list of images.
func only(t *testing.T, top v1.ImageIndex) (v1.ImageIndex, *v1.IndexManifest) {
	t.Helper()
	manifest, err := top.IndexManifest()
	if err != nil || len(manifest.Manifests) < 1 || manifest.Manifests[0].MediaType != types.OCIImageIndex {
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
