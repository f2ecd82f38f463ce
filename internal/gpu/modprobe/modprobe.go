// Package modprobe runs the programs that load and unload kernel modules. It also writes the
// modprobe.d(5) file that makes amdgpu come up in the compute mode of a profile (parameter
// user_partt_mode). Then nothing has to be changed at boot.
//
// It changes only a file that it wrote itself. It knows no devices.
package modprobe

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"slices"

	"dcm/internal/gpu/partition"
	"dcm/internal/linux/atomicfile"
)

// mark is the first line of a file of this package. The package scripts check it too.
const mark = "# Written by dcm, see at-load in dcm.toml(5). Changes to this file are lost.\n"

// ErrForeign means that the file was not written by dcm.
var ErrForeign = errors.New("not written by dcm")

// Mode returns the compute mode that the profile sets on every GPU of the node. The
// parameter applies to all GPUs. A profile that skips GPUs or has several modes has no such
// mode.
func Mode(p partition.Profile) (partition.Compute, bool) {
	mode := p.Compute
	for _, g := range p.Groups {
		if g.ForMIG() {
			continue
		}
		if mode != "" && g.Compute != mode {
			return "", false
		}
		mode = g.Compute
	}
	return mode, mode != "" && len(p.Skip) == 0
}

// text returns the content of the file. The parameter numbers the modes as enum
// amdgpu_gfx_partition does.
func text(mode partition.Compute) []byte {
	return fmt.Appendf(nil, "%soptions amdgpu user_partt_mode=%d\n", mark, slices.Index(partition.ComputeModes(), mode))
}

// Set writes the file for the mode. It reports whether the file has changed.
func Set(path string, mode partition.Compute) (changed bool, err error) {
	now, err := read(path)
	if err != nil || bytes.Equal(now, text(mode)) {
		return false, err
	}
	if err := atomicfile.Write(path, text(mode), atomicfile.Options{Mode: 0o644}); err != nil {
		return false, fmt.Errorf("cannot write the compute mode %s for the next driver load: %w", mode, err)
	}
	return true, nil
}

// Drop removes the file unless it sets the mode unless; "" means none. A mode that does not
// fit a new memory mode must not be there when the driver loads. A file that dcm did not
// write stays, without an error.
func Drop(path string, unless partition.Compute) (changed bool, err error) {
	now, err := read(path)
	switch {
	case errors.Is(err, ErrForeign) || err == nil && now == nil:
		return false, nil
	case err != nil:
		return false, err
	case unless != "" && bytes.Equal(now, text(unless)):
		return false, nil
	}
	if err := os.Remove(path); err != nil {
		return false, fmt.Errorf("cannot remove the compute mode for the next driver load: %w", err)
	}
	return true, nil
}

// read returns the content of the file, nil if there is none.
func read(path string) ([]byte, error) {
	now, err := os.ReadFile(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil, nil
	case err != nil:
		return nil, fmt.Errorf("cannot read the module options of amdgpu: %w", err)
	case !bytes.HasPrefix(now, []byte(mark)):
		return nil, fmt.Errorf("%s sets the module options of amdgpu: %w", path, ErrForeign)
	}
	return now, nil
}
