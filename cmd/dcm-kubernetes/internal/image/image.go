// Package image makes a container image without a base image, as an OCI image layout on disk. For
// each architecture the image has one program or one tree of files. A bill of materials refers to the
// image of each program. The build is reproducible: the same files give the same bytes.
package image

import (
	"archive/tar"
	"bytes"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/layout"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
	"github.com/google/go-containerregistry/pkg/v1/types"
)

// Program is the content of the image for one architecture.
type Program struct {
	Arch string // GOARCH
	Path string // the program, or the directory that becomes the image's root
}

// About is the metadata of the image.
type About struct {
	Name    string // also the name of its program, which is in the root directory
	Version string
	Made    time.Time // time of the commit, for a reproducible build

	Revision string    // the commit; "" if unknown
	License  string    // SPDX expression
	Licenses *Licenses // of a program, which also gets a bill of materials; nil for a tree, which has its own
}

// Write makes the layout in a new directory.
func Write(dir string, about About, programs []Program) (err error) {
	if err := os.Mkdir(dir, 0o755); err != nil {
		return fmt.Errorf("cannot make the image: %w", err)
	}
	defer func() {
		if err != nil {
			os.RemoveAll(dir)
		}
	}()
	var index v1.ImageIndex = mutate.IndexMediaType(empty.Index, types.OCIImageIndex)
	images := make([]v1.Image, len(programs))
	for i, p := range programs {
		img, err := of(p, about)
		if err != nil {
			return fmt.Errorf("cannot make the image for %s: %w", p.Arch, err)
		}
		images[i] = img
		index = mutate.AppendManifests(index, mutate.IndexAddendum{
			Add:        img,
			Descriptor: v1.Descriptor{Platform: &v1.Platform{OS: "linux", Architecture: p.Arch}},
		})
	}
	// One name refers to all architectures through an index inside the index of the layout.
	path, err := layout.Write(dir, empty.Index)
	if err != nil {
		return fmt.Errorf("cannot make the image: %w", err)
	}
	err = path.AppendIndex(index, layout.WithAnnotations(map[string]string{"org.opencontainers.image.ref.name": about.Version}))
	if err != nil {
		return fmt.Errorf("cannot make the image: %w", err)
	}
	for i, p := range programs {
		if about.Licenses == nil {
			break
		}
		if err := appendBill(path, p.Path, about, images[i]); err != nil {
			return fmt.Errorf("cannot make the bill of materials for %s: %w", p.Arch, err)
		}
	}
	return nil
}

// of makes the image of one architecture.
func of(p Program, about About) (v1.Image, error) {
	packed, err := pack(p.Path, about)
	if err != nil {
		return nil, err
	}
	layer, err := tarball.LayerFromOpener(
		func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(packed)), nil },
		tarball.WithMediaType(types.OCILayer))
	if err != nil {
		return nil, err
	}
	img := mutate.ConfigMediaType(mutate.MediaType(empty.Image, types.OCIManifestSchema1), types.OCIConfigJSON)
	img, err = mutate.Append(img, mutate.Addendum{
		Layer:     layer,
		MediaType: types.OCILayer,
		History:   v1.History{Created: v1.Time{Time: about.Made}, CreatedBy: about.Name + " " + about.Version},
	})
	if err != nil {
		return nil, err
	}
	config, err := img.ConfigFile()
	if err != nil {
		return nil, err
	}
	config = config.DeepCopy()
	config.OS, config.Architecture, config.Created = "linux", p.Arch, v1.Time{Time: about.Made}
	config.Config.Entrypoint = []string{"/" + about.Name}
	config.Config.User = "0:0"
	config.Config.Labels = map[string]string{
		"org.opencontainers.image.title":   about.Name,
		"org.opencontainers.image.version": about.Version,
	}
	for label, value := range map[string]string{"revision": about.Revision, "licenses": about.License} {
		if value != "" {
			config.Config.Labels["org.opencontainers.image."+label] = value
		}
	}
	return mutate.ConfigFile(img, config)
}

// pack returns the layer: a program or a tree, owned by root. Modes keep only whether a file is
// executable.
func pack(from string, about About) ([]byte, error) {
	info, err := os.Stat(from)
	if err != nil {
		return nil, err
	}
	var out bytes.Buffer
	w := tar.NewWriter(&out)
	if !info.IsDir() {
		err = program(w, from, about)
	} else {
		err = tree(w, os.DirFS(from), about.Made)
	}
	if err != nil {
		return nil, err
	}
	if err := w.Close(); err != nil {
		return nil, err
	}
	return out.Bytes(), nil
}

// program adds a program and the licence texts of what it contains.
func program(w *tar.Writer, from string, about About) error {
	if err := add(w, os.DirFS(filepath.Dir(from)), filepath.Base(from), about.Name, 0o755, about.Made); err != nil || about.Licenses == nil {
		return err
	}
	texts, err := about.Licenses.texts(about.Name, from)
	if err != nil {
		return err
	}
	for _, t := range texts {
		if err := write(w, t.path, t.text, 0o644, about.Made); err != nil {
			return err
		}
	}
	return nil
}

// tree adds the files in lexical order.
func tree(w *tar.Writer, from fs.FS, made time.Time) error {
	return fs.WalkDir(from, ".", func(path string, d fs.DirEntry, err error) error {
		switch {
		case err != nil || path == ".":
			return err
		case d.IsDir():
			return w.WriteHeader(&tar.Header{Typeflag: tar.TypeDir, Name: path + "/", Mode: 0o755, ModTime: made, Format: tar.FormatPAX})
		case !d.Type().IsRegular():
			return fmt.Errorf("%s: neither a file nor a directory", path)
		}
		info, err := d.Info()
		if err != nil {
			return err
		}
		mode := int64(0o644)
		if info.Mode()&0o100 != 0 {
			mode = 0o755
		}
		return add(w, from, path, path, mode, made)
	})
}

func add(w *tar.Writer, from fs.FS, path, as string, mode int64, made time.Time) error {
	content, err := fs.ReadFile(from, path)
	if err != nil {
		return err
	}
	return write(w, as, content, mode, made)
}

func write(w *tar.Writer, as string, content []byte, mode int64, made time.Time) error {
	header := &tar.Header{Typeflag: tar.TypeReg, Name: as, Mode: mode, Size: int64(len(content)), ModTime: made, Format: tar.FormatPAX}
	if err := w.WriteHeader(header); err != nil {
		return err
	}
	_, err := w.Write(content)
	return err
}
