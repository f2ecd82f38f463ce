package amdsmi

import (
	"slices"

	"dcm/internal/gpu/partition"
)

// change is a set with the facts that it needs.
type change struct {
	number   uint32
	function string
	set      func(processor uintptr, number uint32) uint32
	read     func(processor uintptr) (string, error)
	pending  bool // it takes effect at the next driver load
}

// set makes one change and reads it back after a new enumeration. It calls nothing if the
// mode's number is unknown.
func set(lib *library, r Request, v Version, n Numbering, forbids error, reply *Reply) error {
	if forbids != nil {
		return forbids
	}
	c, err := lib.change(r, v, n)
	if err != nil {
		return err
	}
	p, err := lib.find(r.GPU)
	if err != nil {
		return err
	}
	before, err := c.read(p.handle)
	if err != nil {
		return err
	}
	reply.Set = &Set{GPU: r.GPU, Mode: r.Mode, Number: c.number, Function: c.function, Before: before}
	if status := c.set(p.handle, c.number); status != 0 {
		return failStatus(Refused, status, "%s refuses %s on %s", c.function, r.Mode, r.GPU)
	}
	return readBack(lib, r, c, reply.Set)
}

func (l *library) change(r Request, v Version, n Numbering) (change, error) {
	if r.Do == SetCompute {
		if err := l.canSetCompute(); err != nil {
			return change{}, err
		}
		number, err := n.computeNumber(v, partition.Compute(r.Mode))
		if err != nil {
			return change{}, fail(UnknownNumber, "%w", err)
		}
		return change{number, symSetCompute, l.setCompute, l.computeMode, false}, nil
	}
	number, err := n.memoryNumber(v, partition.Memory(r.Mode))
	if err != nil {
		return change{}, fail(UnknownNumber, "%w", err)
	}
	if n.memoryMode {
		return change{number, symMemoryMode, l.setMemoryMode, l.memoryMode, true}, nil
	}
	if l.setMemory == nil {
		return change{}, fail(Unusable, "%s lacks amdsmi_set_gpu_memory_partition", l.file)
	}
	return change{number, "amdsmi_set_gpu_memory_partition", l.setMemory, l.memoryMode, true}, nil
}

func readBack(lib *library, r Request, c change, s *Set) error {
	if err := lib.restart(); err != nil {
		return err
	}
	p, err := lib.find(r.GPU)
	if err != nil {
		return err
	}
	if s.After, err = c.read(p.handle); err != nil {
		return err
	}
	if s.After == r.Mode || c.pending && s.After == s.Before {
		return nil
	}
	return fail(Mismatch, "%s was set on %s with number %d, and %s is read back", r.Mode, r.GPU, c.number, s.After)
}

func (l *library) find(a partition.Address) (processor, error) {
	found, err := l.gpus()
	if err != nil {
		return processor{}, err
	}
	if i := slices.IndexFunc(found, func(p processor) bool { return p.address == a }); i >= 0 {
		return found[i], nil
	}
	there := make([]partition.Address, len(found))
	for i, p := range found {
		there[i] = p.address
	}
	return processor{}, fail(NoSuchGPU, "%s knows no GPU at %s: it has %s", l.file, a, partition.List(there))
}
