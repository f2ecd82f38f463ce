// Package cdi writes a specification for the Container Device Interface. With it, podman, docker,
// containerd and CRI-O find the device nodes of a partition by its name.
//
// It does not know how partitions are found or which users may use them: the specification grants no
// permission.
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

// Kind is the first part of a device's name: "deviceconfig.org/partition=0000:05:00.0-3".
const Kind = "deviceconfig.org/partition"

// Directory contains generated specifications; File is the name of dcm's.
const (
	Directory = "/run/cdi"
	File      = "dcm.json"
)

// version is the version of the format: the oldest one in which a name may begin with a digit, and the
// newest one that podman 4.3 reads. An engine ignores a file of an unknown version.
const version = "0.5.0"

// Device is a name and its device nodes.
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

// node is a device node, which has the same path in the container. The engine reads its device numbers
// on the host when the container starts.
type node struct {
	Path        string `json:"path"`
	Permissions string `json:"permissions"`
}

// Render returns the specification, with the devices sorted by name.
func Render(devices []Device) ([]byte, error) {
	s := spec{Version: version, Kind: Kind, Devices: []device{}}
	for _, d := range devices {
		if !Valid(d.Name) {
			return nil, fmt.Errorf("CDI device %q: invalid name (want letters, digits and _ - . :, with a letter or digit at both ends)", d.Name)
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

// Valid reports whether a name of a device is valid, by the rules of ValidateDeviceName in the
// reference implementation.
func Valid(name string) bool {
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

// Write replaces the specification in a directory atomically. Without devices it removes the
// file, because a specification without devices is invalid.
func Write(dir string, devices []Device) error {
	path := filepath.Join(dir, File)
	if len(devices) == 0 {
		if err := os.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return fmt.Errorf("cannot remove the CDI specification: %w", err)
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
		return fmt.Errorf("cannot write the CDI specification: %w", err)
	}
	return nil
}

func put(path string, text []byte) error {
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return err
	}
	return atomicfile.Write(path, text, atomicfile.Options{Mode: 0o644})
}
