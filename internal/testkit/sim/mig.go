package sim

import (
	"errors"
	"io/fs"
	"os"
	"slices"
	"sync"
	"syscall"

	"dcm/internal/gpu/nvml/standin"
)

// instance is a GPU instance with the IDs of its compute instances.
type instance struct {
	ID      int
	Compute []int
}

// beginMIG creates the state file of the stand-in for libnvidia-ml. It keeps the file of the boot
// before if that is of the same GPUs.
func beginMIG(n *Node) error {
	if n.opts.MIG == "" || len(nvidias(n)) == 0 {
		return nil
	}
	if _, err := os.Stat(n.opts.MIG); !errors.Is(err, fs.ErrNotExist) {
		before, err := standin.Read(n.opts.MIG)
		if err != nil || sameGPUs(n, before) {
			return errors.Join(err, updateMIG(n, (*standin.State).Reboot), holdNVIDIA(n))
		}
	}
	s, err := standin.New(n.kind.driverVersion(), "")
	for _, b := range nvidias(n) {
		if b.recorded != nil && b.recorded.nvml != nil {
			s.GPUs = append(s.GPUs, standInGPU(*b.recorded.nvml))
			continue
		}
		err = errors.Join(err, s.Add(b.Chip.MIG, b.Address))
	}
	s.Privileged = true
	for i, b := range nvidias(n) {
		g := &s.GPUs[i]
		if b.Chip.Locked {
			g.Virtualization = 2
		}
		g.Name, g.UUID, g.Subsystem = b.Chip.Product, b.gpuUUID(), uint32(b.Chip.SubDevice)<<16|nvidiaVendor
	}
	return errors.Join(err, standin.Write(n.opts.MIG, s), holdNVIDIA(n))
}

func sameGPUs(n *Node, s standin.State) bool {
	return slices.EqualFunc(nvidias(n), s.GPUs, func(b *board, g standin.GPU) bool { return b.Address == g.Address && b.Chip.Product == g.Name })
}

func updateMIG(n *Node, change func(*standin.State)) error {
	n.mig.Lock()
	defer n.mig.Unlock()
	if n.mig.file == "" {
		return nil
	}
	return standin.Update(n.mig.file, func(s *standin.State) error {
		change(s)
		return nil
	})
}

// instancesOf returns the instances of each GPU, from the stand-in's state.
func instancesOf(n *Node, boards []*board) [][]instance {
	out := make([][]instance, len(boards))
	s, ok := standIn(n)
	if !ok {
		return out
	}
	for _, g := range s.GPUs {
		i := slices.IndexFunc(boards, func(b *board) bool { return b.Address == g.Address })
		if i < 0 {
			continue
		}
		for _, gi := range g.Instances {
			one := instance{ID: gi.ID}
			for _, c := range gi.Compute {
				one.Compute = append(one.Compute, c.ID)
			}
			out[i] = append(out[i], one)
		}
	}
	return out
}

// migCache is the stand-in's state when it was last read.
type migCache struct {
	sync.Mutex
	file  string // "" if there is no state
	ino   uint64
	state standin.State
}

// standIn reads the stand-in's state. Each change replaces the file.
func standIn(n *Node) (standin.State, bool) {
	n.mig.Lock()
	defer n.mig.Unlock()
	if n.mig.file == "" {
		return standin.State{}, false
	}
	info, err := os.Stat(n.mig.file)
	if err != nil {
		return standin.State{}, false
	}
	ino := info.Sys().(*syscall.Stat_t).Ino ^ uint64(info.ModTime().UnixNano())
	if ino != n.mig.ino {
		if n.mig.state, err = standin.Read(n.mig.file); err != nil {
			return standin.State{}, false
		}
		n.mig.ino = ino
	}
	return n.mig.state, true
}

// countMIG writes the number of open files of a GPU to the stand-in's state. A process that has
// an instance open uses that instance; any other process uses the GPU. n.mu is held.
func countMIG(n *Node, b *board) {
	whole, inside := 0, make(map[int]int)
	for h := range n.handles {
		switch {
		case h.board != b:
		case h.instance != noInstance:
			inside[h.instance]++
		case !held(n, func(o *Handle) bool { return o.board == b && o.PID == h.PID && o.instance != noInstance }):
			whole++
		}
	}
	_ = updateMIG(n, func(s *standin.State) {
		for i := range s.GPUs {
			if g := &s.GPUs[i]; g.Address == b.Address {
				g.Busy = whole
				for k := range g.Instances {
					g.Instances[k].Busy = inside[g.Instances[k].ID]
				}
			}
		}
	})
}

// loseMIG writes into the stand-in's state that a GPU was removed from the bus. The caller holds n.mu.
func loseMIG(n *Node, b *board) {
	_ = updateMIG(n, func(s *standin.State) {
		for i := range s.GPUs {
			s.GPUs[i].Lost = s.GPUs[i].Lost || s.GPUs[i].Address == b.Address
		}
	})
}
