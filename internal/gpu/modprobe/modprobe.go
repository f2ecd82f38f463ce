// Package modprobe keeps the file by which amdgpu comes up in the compute mode of a
// profile, so that there is nothing left to change at boot: modprobe.d(5), and the
// driver's parameter user_partt_mode.
//
// It touches only a file that it wrote itself, and knows no devices.
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

// mark is the first line of a file that this package wrote. The package's scripts
// look for it too.
const mark = "# Written by dcm, see at-load in dcm.toml(5). Changes to this file are lost.\n"

// ErrForeign says that somebody else wrote the file.
var ErrForeign = errors.New("it is not dcm's file")

// Mode returns the compute mode that a profile gives to every GPU of the node. The
// parameter is for all of them, so a profile that skips some or gives them several
// modes has none.
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

// text is the file's content. The parameter counts the modes as
// amdgpu_gfx_partition does.
func text(mode partition.Compute) []byte {
	return fmt.Appendf(nil, "%soptions amdgpu user_partt_mode=%d\n", mark, slices.Index(partition.ComputeModes(), mode))
}

// Set has the driver come up in the mode from now on. It reports whether the file
// was changed.
func Set(path string, mode partition.Compute) (changed bool, err error) {
	now, err := read(path)
	if err != nil || bytes.Equal(now, text(mode)) {
		return false, err
	}
	if err := atomicfile.Write(path, text(mode), atomicfile.Options{Mode: 0o644}); err != nil {
		return false, fmt.Errorf("cannot have the driver come up in %s: %w", mode, err)
	}
	return true, nil
}

// Drop removes the file unless it says this mode, "" for none: a mode that does not
// go with a new memory mode must not be there when the driver is loaded. A file of
// somebody else stays, and is no error here.
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
		return false, fmt.Errorf("cannot leave the driver its own choice of a mode: %w", err)
	}
	return true, nil
}

// read returns the file's content, nil if there is none.
func read(path string) ([]byte, error) {
	now, err := os.ReadFile(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil, nil
	case err != nil:
		return nil, fmt.Errorf("cannot read how the driver comes up: %w", err)
	case !bytes.HasPrefix(now, []byte(mark)):
		return nil, fmt.Errorf("%s says how the driver comes up: %w", path, ErrForeign)
	}
	return now, nil
}
