// Package cdi tells container engines of partitions: a specification of the
// Container Device Interface, by which podman, docker, containerd and CRI-O find the
// device nodes behind a name.
//
// It renders what it is given and puts it in place. It refuses to know how
// partitions are found and who may have them: a name is no permission.
package cdi

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"dcm/internal/linux/atomicfile"
	"dcm/internal/sorting"
)

// Kind is the first half of a device's name: "deviceconfig.org/partition=0000:05:00.0-3".
const Kind = "deviceconfig.org/partition"

// Directory is where generated specifications are, and File the one of dcm.
const (
	Directory = "/run/cdi"
	File      = "dcm.json"
)

// version is the oldest that allows a name to begin with a digit. podman 4.3 resolves
// up to 0.5.0, and an engine hides a whole file of a version that it does not know.
const version = "0.5.0"

// Device is a name and the device nodes behind it.
type Device struct {
	Name  string   // "0000:05:00.0-3", "reservation-vllm", "all"
	Nodes []string // "/dev/kfd", "/dev/dri/renderD131"
}

type spec struct {
	Version string   `json:"cdiVersion"`
	Kind    string   `json:"kind"`
	Devices []device `json:"devices"`
}

type device struct {
	Name  string `json:"name"`
	Edits edits  `json:"containerEdits"`
}

type edits struct {
	Nodes []node `json:"deviceNodes"`
}

// node is a device node, with the same path in the container. Its numbers are left
// out: the engine takes them from the host when the container starts.
type node struct {
	Path        string `json:"path"`
	Permissions string `json:"permissions"`
}

// Render returns the specification, the devices in the order of their names.
func Render(devices []Device) ([]byte, error) {
	s := spec{Version: version, Kind: Kind, Devices: []device{}}
	for _, d := range devices {
		if !valid(d.Name) {
			return nil, fmt.Errorf("cannot tell container engines of %q: a name has letters, digits and _ - . : alone, and begins and ends with one of the first two", d.Name)
		}
		one := device{Name: d.Name, Edits: edits{Nodes: []node{}}}
		for _, path := range d.Nodes {
			one.Edits.Nodes = append(one.Edits.Nodes, node{path, "rw"})
		}
		s.Devices = append(s.Devices, one)
	}
	sorting.By(s.Devices, func(a, b device) int { return strings.Compare(a.Name, b.Name) })
	text, err := json.MarshalIndent(s, "", "  ")
	return append(text, '\n'), err
}

// valid holds a name to ValidateDeviceName of the reference implementation.
func valid(name string) bool {
	end := len(name) - 1
	for i := range len(name) {
		c := name[i]
		word := 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z' || '0' <= c && c <= '9'
		inside := c == '_' || c == '-' || c == '.' || c == ':'
		if !word && (!inside || i == 0 || i == end) {
			return false
		}
	}
	return name != ""
}

// Write puts the specification into a directory, in one step, so that an engine
// finds the old one or the new one. A specification without devices would be an
// invalid one; then the file is removed.
func Write(dir string, devices []Device) error {
	path := filepath.Join(dir, File)
	if len(devices) == 0 {
		if err := os.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return fmt.Errorf("cannot take back what container engines were told: %w", err)
		}
		return nil
	}
	text, err := Render(devices)
	if err != nil {
		return err
	}
	if old, err := os.ReadFile(path); err == nil && string(old) == string(text) {
		return nil
	}
	if err := put(path, text); err != nil {
		return fmt.Errorf("cannot tell container engines of the partitions: %w", err)
	}
	return nil
}

func put(path string, text []byte) error {
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return err
	}
	return atomicfile.Write(path, text, atomicfile.Options{Mode: 0o644})
}
