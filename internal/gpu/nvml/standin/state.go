package standin

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"

	"dcm/internal/gpu/partition"
)

// State is the state of the simulated machine.
type State struct {
	Driver, NVML string
	Epoch        int
	Loaded       bool
	Privileged   bool
	Held         bool // a kernel module holds every GPU
	GPUs         []GPU
	Knobs        []string // "in-use 0000:41:00.0"
}

// GPU is a GPU of the machine.
type GPU struct {
	Address           partition.Address
	Device, Subsystem uint32 // device id << 16 | vendor id
	Minor             int
	UUID              string
	Memory            int  // MB
	MIG               bool // supports MIG
	Kept              bool // the mode is kept in the InfoROM (Ampere), not in the module's memory
	Current, Pending  bool
	Resetless         int // 1 yes, 0 no, -1 unknown
	Virtualization    int // value of the library: 1 passed through, 2 a vGPU
	Epoch             int // handles of another epoch are invalid
	Busy              int // number of open files of processes that use none of its instances
	Lost              bool
	Node              string // file that makes the GPU busy while another process has it open; "" for none
	Name              string
	Profiles          []Profile
	Instances         []Instance
	Processes         []Process
}

// Profile is a GPU instance profile.
type Profile struct {
	Index, ID, Slices, Memory, Max, Size int
	Starts                               []int
	Name                                 string
}

// Instance is a GPU instance.
type Instance struct {
	ID      int
	Profile string
	Start   int
	Busy    int // number of open files of processes that use it
	Compute []Compute
}

// Compute is a compute instance.
type Compute struct{ ID, Slices, Start int }

// Process is a process on a GPU. GI and CI are 0xFFFFFFFF without MIG.
type Process struct {
	PID      int
	Memory   uint64
	GI, CI   uint32
	Graphics bool
}

// Update changes the state in a file under its lock. The file may be a link and need not
// exist.
func Update(file string, change func(*State) error) error {
	if real, err := filepath.EvalSymlinks(file); err == nil {
		file = real
	}
	unlock, err := lock(file)
	if err != nil {
		return err
	}
	defer unlock()
	s, err := read(file)
	if err != nil {
		return err
	}
	if err := change(&s); err != nil {
		return err
	}
	next := file + ".next"
	if err := os.WriteFile(next, []byte(s.text()), 0o644); err != nil {
		return fmt.Errorf("cannot write the state of the stand-in: %w", err)
	}
	return os.Rename(next, file)
}

// Read reads the state.
func Read(file string) (State, error) {
	var out State
	if real, err := filepath.EvalSymlinks(file); err == nil {
		file = real
	}
	unlock, err := lock(file)
	if err != nil {
		return out, err
	}
	defer unlock()
	return read(file)
}

// Write replaces the state.
func Write(file string, s State) error {
	return Update(file, func(now *State) error { *now = s; return nil })
}

func lock(file string) (unlock func(), err error) {
	f, err := os.OpenFile(file+".lock", os.O_RDWR|os.O_CREATE, 0o644)
	if err != nil {
		return nil, fmt.Errorf("cannot lock the state of the stand-in: %w", err)
	}
	if err := unix.Flock(int(f.Fd()), unix.LOCK_EX); err != nil {
		f.Close()
		return nil, fmt.Errorf("cannot lock %s: %w", f.Name(), err)
	}
	return func() { f.Close() }, nil
}

// Unload sets the state after an unload of the module: no instances, and only persistent
// modes.
func (s *State) Unload() {
	s.Loaded = false
	for i := range s.GPUs {
		s.GPUs[i].reset()
	}
}

// Load loads the module, which invalidates older handles.
func (s *State) Load() {
	s.Loaded = true
	s.Epoch++
}

// Reboot sets the state after a reboot.
func (s *State) Reboot() {
	s.Unload()
	for i := range s.GPUs {
		s.GPUs[i].Lost, s.GPUs[i].Busy, s.GPUs[i].Processes = false, 0, nil
	}
	s.Load()
}

func (g *GPU) reset() {
	g.Epoch++
	g.Instances = nil
	if g.Kept {
		g.Current = g.Pending
	} else {
		g.Current, g.Pending = false, false
	}
}

// Turn adds knobs.
func Turn(file string, knobs ...string) error {
	return Update(file, func(s *State) error { s.Knobs = append(s.Knobs, knobs...); return nil })
}

// Unturn removes the knobs of these names, or all knobs if there is none.
func Unturn(file string, names ...string) error {
	return Update(file, func(s *State) error {
		var left []string
		for _, k := range s.Knobs {
			name, _, _ := strings.Cut(k, " ")
			for _, n := range names {
				if n == name {
					name = ""
				}
			}
			if len(names) > 0 && name != "" {
				left = append(left, k)
			}
		}
		s.Knobs = left
		return nil
	})
}
