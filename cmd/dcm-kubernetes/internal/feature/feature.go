// Package feature publishes the partition modes of a node for Node Feature Discovery,
// through a file in its directory for local features. It reads nothing there.
package feature

import (
	"bytes"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// File is the path of the file with the node's features; with "" none is written.
type File string

// Write writes the partitions by mode, for example cpx_nps4. It does not touch an unchanged
// file. The replacement is atomic: Node Feature Discovery ignores names that start with a
// dot.
func (f File) Write(partitions map[string]int) error {
	if f == "" {
		return nil
	}
	text := render(partitions)
	if now, err := os.ReadFile(string(f)); err == nil && bytes.Equal(now, text) {
		return nil
	}
	temporary := filepath.Join(filepath.Dir(string(f)), "."+filepath.Base(string(f)))
	if err := os.WriteFile(temporary, text, 0o644); err != nil {
		return fmt.Errorf("cannot write the node's features: %w", err)
	}
	if err := os.Rename(temporary, string(f)); err != nil {
		return fmt.Errorf("cannot write the node's features: %w", err)
	}
	return nil
}

// render writes no mode without partitions, and "mixed" if the GPUs differ.
func render(partitions map[string]int) []byte {
	modes := slices.Sorted(maps.Keys(partitions))
	total := 0
	for _, n := range partitions {
		total += n
	}
	var out bytes.Buffer
	switch {
	case len(modes) > 1:
		fmt.Fprintln(&out, "dcm.amd.com/gpu.mode=mixed")
	case len(modes) == 1 && modes[0] != "":
		fmt.Fprintln(&out, "dcm.amd.com/gpu.mode="+strings.ToUpper(modes[0]))
	}
	fmt.Fprintf(&out, "dcm.amd.com/gpu.partitions=%d\n", total)
	return out.Bytes()
}
