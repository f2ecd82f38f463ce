// Package image makes the container image of dcm-kubernetes: the program, and nothing
// else, for each architecture, as a layout of the Open Container Initiative on disk. The
// same programs give the same bytes, whoever makes it and when.
package image

import (
	"archive/tar"
	"bytes"
	"fmt"
	"io"
	"os"
	"time"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/layout"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
	"github.com/google/go-containerregistry/pkg/v1/types"
)

// name is the program's, in the image.
const name = "dcm-kubernetes"

// Program is one architecture's.
type Program struct {
	Arch string // as Go calls it
	Path string
}

// About is what the image says of itself.
type About struct {
	Version string
	Made    time.Time // of the commit, not of this moment
}

// Write makes the layout in a directory that is not there yet.
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
	for _, p := range programs {
		img, err := of(p, about)
		if err != nil {
			return fmt.Errorf("cannot make the image for %s: %w", p.Arch, err)
		}
		index = mutate.AppendManifests(index, mutate.IndexAddendum{
			Add:        img,
			Descriptor: v1.Descriptor{Platform: &v1.Platform{OS: "linux", Architecture: p.Arch}},
		})
	}
	// One name for all architectures: an index within the layout's own.
	path, err := layout.Write(dir, empty.Index)
	if err != nil {
		return fmt.Errorf("cannot make the image: %w", err)
	}
	err = path.AppendIndex(index, layout.WithAnnotations(map[string]string{"org.opencontainers.image.ref.name": about.Version}))
	if err != nil {
		return fmt.Errorf("cannot make the image: %w", err)
	}
	return nil
}

// of makes one architecture's image.
func of(p Program, about About) (v1.Image, error) {
	packed, err := pack(p.Path, about.Made)
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
		History:   v1.History{Created: v1.Time{Time: about.Made}, CreatedBy: name + " " + about.Version},
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
	config.Config.Entrypoint = []string{"/" + name}
	config.Config.User = "0:0"
	config.Config.Labels = map[string]string{
		"org.opencontainers.image.title":   name,
		"org.opencontainers.image.version": about.Version,
	}
	return mutate.ConfigFile(img, config)
}

// pack is the layer: one file, of root's.
func pack(file string, made time.Time) ([]byte, error) {
	program, err := os.ReadFile(file)
	if err != nil {
		return nil, err
	}
	var out bytes.Buffer
	w := tar.NewWriter(&out)
	header := &tar.Header{Typeflag: tar.TypeReg, Name: name, Mode: 0o755, Size: int64(len(program)), ModTime: made, Format: tar.FormatPAX}
	if err := w.WriteHeader(header); err != nil {
		return nil, err
	}
	if _, err := w.Write(program); err != nil {
		return nil, err
	}
	if err := w.Close(); err != nil {
		return nil, err
	}
	return out.Bytes(), nil
}
