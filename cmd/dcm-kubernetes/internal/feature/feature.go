// Package feature tells Node Feature Discovery how a node's GPUs are divided, by a
// file in its directory for features of others. It reads nothing there.
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

// File is the path of the features; empty for nobody to tell.
type File string

// Write tells of partitions by mode, cpx_nps4 say. A file that says so already is not
// touched, and a reader finds the old one or the new one, never a part: what begins
// with a dot is not read.
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

// render gives no mode where there are none, and "mixed" where the GPUs differ.
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
