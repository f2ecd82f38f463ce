package amdgpu

import (
	"errors"
	"fmt"
	"io/fs"
	"strings"

	"dcm/internal/gpu/partition"
	"dcm/internal/linux/sysfs"
)

// ModeError is an unknown mode in a mode file. A retry helps only if the driver shows that
// it does not know the mode.
type ModeError struct {
	File  string
	Value string
}

func (e *ModeError) Error() string {
	return fmt.Sprintf("%s holds %q, not a mode dcm knows", e.File, e.Value)
}

// transient reports whether the value may change to a mode. The driver shows UNKNOWN after a
// switch that failed half-way (amdgpu_gfx_compute_mode_desc).
func (e *ModeError) transient() bool { return e.Value == "UNKNOWN" || e.Value == "" }

// Permanent reports that waiting does not help.
func (e *ModeError) Permanent() bool { return !e.transient() }

// notSupported is the text of available_compute_partition if the driver has no list.
const notSupported = "Not supported"

// parseModes parses a list like "SPX, DPX, CPX". nil means that the driver lists nothing.
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

// readModes reads the modes of g from its directory. shown is false if the driver shows
// none.
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
	settings, err := readSettings(own)
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
	g.Settings = settings
	g.ReadOnly = model.Virtual || !writable
	return true, nil
}

// readSettings reads the settings that the driver shows.
func readSettings(own sysfs.Dir) (s partition.Settings, err error) {
	if s.Allocation, err = readMode(own, allocationFile, parseAllocation); err != nil {
		return s, err
	}
	s.Isolation, err = readMode(own, isolationFile, partition.ParseIsolation)
	return s, err
}

// parseAllocation parses the driver's name, which is in upper case.
func parseAllocation(text string) (partition.Allocation, error) {
	return partition.ParseAllocation(strings.ToLower(text))
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

// ownerWritable reports whether the file has the owner's write bit. The driver removes it if
// the mode cannot be set. Root sees no other sign of it.
func ownerWritable(own sysfs.Dir, file string) (bool, error) {
	mode, err := own.Mode(file)
	return mode&0o200 != 0, err
}
