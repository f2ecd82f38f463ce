package image

import (
	"bytes"
	"debug/buildinfo"
	"encoding/json"
	"fmt"
	"io"
	"runtime/debug"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/layout"
	"github.com/google/go-containerregistry/pkg/v1/partial"
	"github.com/google/go-containerregistry/pkg/v1/static"
	"github.com/google/go-containerregistry/pkg/v1/types"
)

// Media types of a bill of materials, and of a manifest's empty configuration.
const (
	cycloneDX types.MediaType = "application/vnd.cyclonedx+json"
	emptyJSON types.MediaType = "application/vnd.oci.empty.v1+json"
)

// component is a component of a CycloneDX document.
type component struct {
	Type    string `json:"type"`
	Ref     string `json:"bom-ref"`
	Name    string `json:"name"`
	Version string `json:"version"`
	PURL    string `json:"purl,omitempty"`
}

func module(m *debug.Module) component {
	if m.Replace != nil {
		m = m.Replace
	}
	purl := fmt.Sprintf("pkg:golang/%s@%s", m.Path, m.Version)
	return component{"library", purl, m.Path, m.Version, purl}
}

// billOf returns the bill of materials of a program as a CycloneDX document: Go's library and the
// modules of its build information.
func billOf(program string, about About) ([]byte, error) {
	info, err := buildinfo.ReadFile(program)
	if err != nil {
		return nil, fmt.Errorf("cannot read the modules of %s: %w", program, err)
	}
	type metadata struct {
		Timestamp string    `json:"timestamp"`
		Component component `json:"component"`
	}
	document := struct {
		Format     string      `json:"bomFormat"`
		Spec       string      `json:"specVersion"`
		Version    int         `json:"version"`
		Metadata   metadata    `json:"metadata"`
		Components []component `json:"components"`
	}{
		Format: "CycloneDX", Spec: "1.6", Version: 1,
		Metadata:   metadata{about.Made.Format("2006-01-02T15:04:05Z"), component{Type: "application", Ref: about.Name, Name: about.Name, Version: about.Version}},
		Components: []component{module(&debug.Module{Path: "std", Version: info.GoVersion})},
	}
	for _, m := range info.Deps {
		document.Components = append(document.Components, module(m))
	}
	return json.Marshal(document)
}

// artifact is a manifest of one file that refers to an image.
type artifact struct {
	manifest []byte
	layer    v1.Layer
}

// refer returns the artifact with a file for an image.
func refer(text []byte, kind types.MediaType, to v1.Image) (v1.Image, error) {
	subject, err := partial.Descriptor(to)
	if err != nil {
		return nil, err
	}
	layer := static.NewLayer(text, kind)
	file, err := partial.Descriptor(layer)
	if err != nil {
		return nil, err
	}
	config, err := partial.Descriptor(static.NewLayer([]byte("{}"), emptyJSON))
	if err != nil {
		return nil, err
	}
	manifest, err := json.Marshal(v1.Manifest{SchemaVersion: 2, MediaType: types.OCIManifestSchema1, ArtifactType: string(kind),
		Config: *config, Layers: []v1.Descriptor{*file}, Subject: &v1.Descriptor{MediaType: subject.MediaType, Size: subject.Size, Digest: subject.Digest}})
	if err != nil {
		return nil, err
	}
	return partial.CompressedToImage(artifact{manifest, layer})
}

func (a artifact) RawManifest() ([]byte, error) { return a.manifest, nil }

func (a artifact) RawConfigFile() ([]byte, error) { return []byte("{}"), nil }

func (a artifact) MediaType() (types.MediaType, error) { return types.OCIManifestSchema1, nil }

func (a artifact) LayerByDigest(h v1.Hash) (partial.CompressedLayer, error) {
	if digest, err := a.layer.Digest(); err != nil || digest != h {
		return configLayer{}, err
	}
	return a.layer, nil
}

// configLayer is the empty configuration.
type configLayer struct{}

func (configLayer) Digest() (v1.Hash, error) {
	h, _, err := v1.SHA256(bytes.NewReader([]byte("{}")))
	return h, err
}

func (configLayer) Compressed() (io.ReadCloser, error) {
	return io.NopCloser(bytes.NewReader([]byte("{}"))), nil
}

func (configLayer) Size() (int64, error) { return 2, nil }

func (configLayer) MediaType() (types.MediaType, error) { return emptyJSON, nil }

// appendBill adds the bill of materials of an image to a layout, as a referrer of the image.
func appendBill(path layout.Path, program string, about About, img v1.Image) error {
	text, err := billOf(program, about)
	if err != nil {
		return err
	}
	bill, err := refer(text, cycloneDX, img)
	if err != nil {
		return err
	}
	if err := path.WriteImage(bill); err != nil {
		return err
	}
	d, err := partial.Descriptor(bill)
	if err != nil {
		return err
	}
	d.ArtifactType = string(cycloneDX)
	return path.AppendDescriptor(*d)
}
