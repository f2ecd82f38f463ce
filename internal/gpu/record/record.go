// Package record writes what the GPUs of a node answer into one file: attributes of sysfs, the
// KFD topology, the reply of NVIDIA's library, errors and times. The simulator replays such a
// file as a kind of node. A record has no names of hosts, users, processes or units, and no
// serial numbers or unique ids.
package record

import (
	"encoding/json"
	"fmt"
	"os"
	"path"
	"strings"

	"dcm/internal/gpu/nvml"
	"dcm/internal/gpu/partition"
	"dcm/internal/sanitize"
	"dcm/internal/worker/serve"
)

// Version is the version of the JSON form.
const Version = 1

// Record is what a node answered.
type Record struct {
	Version int             `json:"version"`
	Program string          `json:"dcm"`    // version of dcm
	Kernel  string          `json:"kernel"` // release
	Arch    string          `json:"arch"`
	Date    string          `json:"date"`
	GPUs    []partition.GPU `json:"gpus"`             // the partitionable GPUs, as dcm read them
	Errors  []string        `json:"errors,omitempty"` // of that
	Files   []File          `json:"files"`            // in the order of their paths
	Calls   []Call          `json:"calls,omitempty"`
	NVML    *nvml.Reply     `json:"nvml,omitempty"`
	SMI     *SMI            `json:"amdsmi,omitempty"`
}

// File is a file of /sys, /proc or /dev.
type File struct {
	Path   string   `json:"path"`
	Mode   string   `json:"mode,omitempty"`   // permissions, "0644"; "" for a link or a directory
	Text   string   `json:"text,omitempty"`   // content
	Link   string   `json:"link,omitempty"`   // last element of a link's target
	Names  []string `json:"names,omitempty"`  // of a directory
	Device string   `json:"device,omitempty"` // "226:128"
	Error  string   `json:"error,omitempty"`  // errno of the read, "EINVAL"
	Took   int64    `json:"took_us,omitempty"`
}

// Call is a call of a vendor's library.
type Call struct {
	Library string `json:"library"`
	State   string `json:"state"` // version, or the error
	Took    int64  `json:"took_us"`
}

// SMI is what AMD's library answered.
type SMI struct {
	Library string          `json:"library"`
	GPUs    []SMIGPU        `json:"gpus"`
	Refused []serve.Refusal `json:"refused,omitempty"` // system calls that the sandbox refused, if they were traced
}

// SMIGPU has the library's facts about a GPU.
type SMIGPU struct {
	Address partition.Address `json:"address"`
	Name    string            `json:"name"`
	Compute string            `json:"compute"`
	Memory  string            `json:"memory"`
	Driver  string            `json:"driver"`
	Notes   []string          `json:"notes,omitempty"`
}

// functions is the directory of the PCI functions.
const functions = "/sys/bus/pci/devices"

// Addresses returns the addresses of the recorded display and accelerator functions.
func (r Record) Addresses() []partition.Address {
	var out []partition.Address
	for _, f := range r.Files {
		if path.Base(f.Path) == "class" && path.Dir(path.Dir(f.Path)) == functions {
			out = append(out, partition.Address(path.Base(path.Dir(f.Path))))
		}
	}
	return out
}

// Attribute returns a file of a PCI function, nil if it was not there.
func (r Record) Attribute(a partition.Address, name string) *File {
	return r.File(path.Join(functions, string(a), name))
}

// File returns a file, nil if it was not there.
func (r Record) File(name string) *File {
	for i := range r.Files {
		if r.Files[i].Path == name {
			return &r.Files[i]
		}
	}
	return nil
}

// IsFile reports whether the name of a kind of node is the path of a record.
func IsFile(kind string) bool {
	return strings.ContainsRune(kind, '/') || strings.HasSuffix(kind, ".json")
}

// Load reads a record.
func Load(file string) (Record, error) {
	text, err := os.ReadFile(file)
	if err != nil {
		return Record{}, sanitize.Error(err)
	}
	var r Record
	if err := sanitize.JSON(text, &r); err != nil {
		return Record{}, fmt.Errorf("%s: not a record of dcm: %w", sanitize.Text(file), err)
	}
	if r.Version != Version {
		return Record{}, fmt.Errorf("%s: unknown version of the record (found %d, want %d)", sanitize.Text(file), r.Version, Version)
	}
	return r, nil
}

// Node returns the partitionable GPUs of a kind of node: a record's, or those of
// [partition.ParseNode].
func Node(kind string) ([]partition.GPU, error) {
	if !IsFile(kind) {
		return partition.ParseNode(kind)
	}
	r, err := Load(kind)
	if err != nil {
		return nil, err
	}
	if len(r.GPUs) == 0 {
		return nil, fmt.Errorf("%s: the recorded node has no partitionable GPU", sanitize.Text(kind))
	}
	return r.GPUs, nil
}

// Text returns the JSON form.
func (r Record) Text() ([]byte, error) {
	out, err := json.MarshalIndent(r, "", " ")
	return append(out, '\n'), err
}
