package cdi

import (
	"encoding/json"
	"io"
	"os"
	"path/filepath"
	"slices"

	"dcm/internal/sanitize"
)

// Directories are where container engines look for specifications, below the root directory.
func Directories() []string { return []string{"etc/cdi", "run/cdi"} }

// NVIDIAKind is the first part of the names in NVIDIA's own specification: "nvidia.com/gpu=MIG-UUID". NVIDIAUnit
// writes that specification, since version 1.18 of the NVIDIA Container Toolkit; it is inactive in between.
const (
	NVIDIAKind = "nvidia.com/gpu"
	NVIDIAUnit = "nvidia-cdi-refresh.service"
)

// maxSpec limits how much of a specification is read, in bytes: a hundred times the usual size.
const maxSpec = 4 << 20

// Names are the full names of devices, "deviceconfig.org/partition=all", with the files that specify them.
type Names map[string][]string

// ReadNames reads the names of all devices from the specifications in directories. decode reads YAML, into
// fields with the names of the keys.
// Like an engine, it ignores a file that it cannot read.
func ReadNames(dirs []string, decode func(yaml []byte, to any) error) Names {
	out := make(Names)
	for _, dir := range dirs {
		for _, pattern := range []string{"*.json", "*.yaml"} {
			files, _ := filepath.Glob(filepath.Join(dir, pattern)) // the pattern is valid
			for _, file := range files {
				for _, name := range namesIn(file, decode) {
					out[name] = append(out[name], sanitize.Text(file))
				}
			}
		}
	}
	return out
}

func namesIn(file string, decode func([]byte, any) error) []string {
	f, err := os.Open(file)
	if err != nil {
		return nil
	}
	defer f.Close()
	text, err := io.ReadAll(io.LimitReader(f, maxSpec))
	if err != nil {
		return nil
	}
	if filepath.Ext(file) == ".json" {
		decode = json.Unmarshal
	}
	var s struct {
		Kind    string
		Devices []struct{ Name string }
	}
	if decode(text, &s) != nil {
		return nil
	}
	var out []string
	for _, d := range s.Devices {
		if Valid(d.Name) {
			out = append(out, sanitize.Text(s.Kind)+"="+d.Name)
		}
	}
	slices.Sort(out)
	return slices.Compact(out)
}
