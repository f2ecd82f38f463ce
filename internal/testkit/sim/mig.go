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
func (n *Node) beginMIG() error {
	if n.opts.MIG == "" || len(n.nvidias()) == 0 {
		return nil
	}
	if _, err := os.Stat(n.opts.MIG); !errors.Is(err, fs.ErrNotExist) {
		before, err := standin.Read(n.opts.MIG)
		if err != nil || n.sameGPUs(before) {
			return errors.Join(err, n.updateMIG((*standin.State).Reboot), n.hold())
		}
	}
	s, err := standin.New(n.kind.driverVersion(), "")
	for _, b := range n.nvidias() {
		if b.recorded != nil && b.recorded.nvml != nil {
			s.GPUs = append(s.GPUs, standInGPU(*b.recorded.nvml))
			continue
		}
		err = errors.Join(err, s.Add(b.Chip.MIG, b.Address))
	}
	s.Privileged = true
	for i, b := range n.nvidias() {
		g := &s.GPUs[i]
		if b.Chip.Locked {
			g.Virtualization = 2
		}
		g.Name, g.UUID, g.Subsystem = b.Chip.Product, b.gpuUUID(), uint32(b.Chip.SubDevice)<<16|nvidiaVendor
	}
	return errors.Join(err, standin.Write(n.opts.MIG, s), n.hold())
}

func (n *Node) sameGPUs(s standin.State) bool {
	return slices.EqualFunc(n.nvidias(), s.GPUs, func(b *board, g standin.GPU) bool { return b.Address == g.Address && b.Chip.Product == g.Name })
}

func (n *Node) updateMIG(change func(*standin.State)) error {
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

// instances returns the instances of each GPU, from the stand-in's state.
func (n *Node) instances(boards []*board) [][]instance {
	out := make([][]instance, len(boards))
	s, ok := n.standIn()
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

// End stops the use of the stand-in's state, which can then be removed. Files that a process left open
// are closed some time after its end.
func (n *Node) End() {
	n.mig.Lock()
	defer n.mig.Unlock()
	n.mig.file = ""
}

// standIn reads the stand-in's state. Each change replaces the file.
func (n *Node) standIn() (standin.State, bool) {
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

// count writes the number of open files of a GPU to the stand-in's state. A process that has
// an instance open uses that instance; any other process uses the GPU. n.mu is held.
func (n *Node) count(b *board) {
	whole, inside := 0, make(map[int]int)
	for h := range n.handles {
		switch {
		case h.board != b:
		case h.instance != noInstance:
			inside[h.instance]++
		case !n.held(func(o *Handle) bool { return o.board == b && o.PID == h.PID && o.instance != noInstance }):
			whole++
		}
	}
	_ = n.updateMIG(func(s *standin.State) {
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

// lose writes into the stand-in's state that a GPU was removed from the bus. The caller holds n.mu.
func (n *Node) lose(b *board) {
	_ = n.updateMIG(func(s *standin.State) {
		for i := range s.GPUs {
			s.GPUs[i].Lost = s.GPUs[i].Lost || s.GPUs[i].Address == b.Address
		}
	})
}
