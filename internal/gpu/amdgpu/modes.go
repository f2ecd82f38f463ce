package amdgpu

import (
	"errors"
	"fmt"
	"io/fs"
	"strings"

	"dcm/internal/gpu/partition"
	"dcm/internal/linux/sysfs"
)

// ModeError is a mode file that holds no mode dcm knows. Trying again does not
// help, unless the driver itself says that it does not know.
type ModeError struct {
	File  string
	Value string
}

func (e *ModeError) Error() string {
	return fmt.Sprintf("%s holds %q, not a mode dcm knows", e.File, e.Value)
}

// passing reports whether the value may become a mode: the driver shows UNKNOWN
// while a switch has failed half-way (amdgpu_gfx_compute_mode_desc).
func (e *ModeError) transient() bool { return e.Value == "UNKNOWN" || e.Value == "" }

// ForGood reports that waiting does not help.
func (e *ModeError) Permanent() bool { return !e.transient() }

// notSupported is what available_compute_partition reads where the driver has
// no list.
const notSupported = "Not supported"

// parseModes reads file's text, a list like "SPX, DPX, CPX". nil: the driver
// lists nothing.
func parseModes[M any](file, text string, parse func(string) (M, error)) ([]M, error) {
	text = strings.TrimSpace(text)
	if text == "" || strings.EqualFold(text, notSupported) {
		return nil, nil
	}
	var modes []M
	for name := range strings.SplitSeq(text, ",") {
		name = strings.TrimSpace(name)
		m, err := parse(name)
		if err != nil {
			return nil, &ModeError{file, name}
		}
		modes = append(modes, m)
	}
	return modes, nil
}

// readModes fills in g's modes, from its directory. shown tells whether the driver shows
// any.
func readModes(own sysfs.Dir, g *partition.GPU) (shown bool, err error) {
	compute, err := readMode(own, computeFile, partition.ParseCompute)
	if compute == "" || err != nil {
		return false, err
	}
	memory, err := readMode(own, memoryFile, partition.ParseMemory)
	if err != nil {
		return true, err
	}
	availableCompute, err := readList(own, availableComputeFile, partition.ParseCompute)
	if err != nil {
		return true, err
	}
	availableMemory, err := readList(own, availableMemoryFile, partition.ParseMemory)
	if err != nil {
		return true, err
	}
	writable, err := ownerWritable(own, computeFile)
	if err != nil {
		return true, err
	}
	model, _ := partition.LookupModel(partition.AMD, g.Device)
	g.Compute, g.Memory = compute, memory
	g.AvailableCompute, g.AvailableMemory = availableCompute, availableMemory
	g.ReadOnly = model.Virtual || !writable
	return true, nil
}

func readMode[M ~string](own sysfs.Dir, file string, parse func(string) (M, error)) (M, error) {
	text, err := own.Read(file)
	if errors.Is(err, fs.ErrNotExist) {
		return "", nil
	}
	if err != nil {
		return "", err
	}
	m, err := parse(text)
	if err != nil {
		return "", &ModeError{own.Path(file), text}
	}
	return m, nil
}

func readList[M ~string](own sysfs.Dir, file string, parse func(string) (M, error)) ([]M, error) {
	text, err := own.Optional(file)
	if err != nil {
		return nil, err
	}
	return parseModes(own.Path(file), text, parse)
}

// ownerWritable tells whether the driver offers the file for writing at all: it
// drops the write bits where it does not, and the mode is the only sign of it
// that root sees.
func ownerWritable(own sysfs.Dir, file string) (bool, error) {
	mode, err := own.Mode(file)
	return mode&0o200 != 0, err
}
