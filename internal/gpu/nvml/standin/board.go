package standin

import (
	"fmt"
	"strings"

	"dcm/internal/gpu/partition"
)

// memory returns the memory of a board in MB, from the name of its largest profile.
func memory(b partition.Board) (mb int) {
	for _, s := range b.Profiles {
		if p, err := partition.ParseMIGProfile(s.Name); err == nil {
			mb = max(mb, p.Memory<<10)
		}
	}
	return mb
}

// New returns a machine with these boards at these addresses, with MIG off and the driver
// loaded. driver is a version like 580.82.07 or an older branch, 535 or 550.
func New(driver, board string, addresses ...partition.Address) (State, error) {
	s := State{Driver: driver, NVML: "13." + driver, Epoch: 1, Loaded: true, Knobs: quirks(driver)}
	for _, a := range addresses {
		if err := s.Add(board, a); err != nil {
			return s, err
		}
	}
	return s, nil
}

// quirks returns the knobs for what old drivers do not report. They have all functions that
// dcm calls.
func quirks(driver string) []string {
	switch branch, _, _ := strings.Cut(driver, "."); branch {
	case "535":
		return []string{"profiles-with-mig"}
	case "550":
		return []string{"names-with-mig"}
	}
	return nil
}

// Add adds a GPU.
func (s *State) Add(board string, a partition.Address) error {
	b, ok := partition.LookupBoard(board)
	if !ok {
		return fmt.Errorf("there is no board %q", board)
	}
	total := memory(b)
	n := len(s.GPUs)
	g := GPU{
		Address: a, Device: uint32(b.Device)<<16 | 0x10de, Subsystem: 0x14f010de, Minor: n, UUID: fmt.Sprintf("GPU-6c2b7e1f-0000-4000-8000-%012x", 0xd000+n),
		Memory: total, MIG: true, Kept: b.ModeResetsGPU, Resetless: 1, Name: "NVIDIA " + board,
	}
	if g.Kept {
		g.Resetless = 0
	}
	whole := 0 // slots
	for _, p := range b.Profiles {
		whole = max(whole, p.Starts[len(p.Starts)-1]+p.Size)
	}
	for _, p := range b.Profiles {
		name, err := partition.ParseMIGProfile(p.Name)
		if err != nil {
			return err
		}
		g.Profiles = append(g.Profiles, Profile{
			Index: index(name, p.Size, whole), ID: p.ID, Slices: name.Slices, Memory: total*p.Size/whole - 256, Max: p.InstanceCount, Size: p.Size, Starts: p.Starts, Name: p.Name,
		})
	}
	s.GPUs = append(s.GPUs, g)
	return nil
}

// index returns the profile index in the library.
func index(p partition.MIGProfile, size, whole int) int {
	double := p.Slices == 1 && size == 2 && whole == 8
	switch p.Attribute {
	case "+me":
		return map[int]int{1: 7, 2: 8}[p.Slices]
	case "+gfx":
		return map[int]int{1: 10, 2: 11, 4: 12}[p.Slices]
	case "-me":
		return map[int]int{1: 13, 2: 14}[p.Slices]
	case "+me.all":
		return map[int]int{1: 15, 2: 16}[p.Slices]
	}
	if double {
		return 9
	}
	return map[int]int{1: 0, 2: 1, 3: 2, 4: 3, 7: 4}[p.Slices]
}
