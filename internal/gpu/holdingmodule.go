package gpu

import (
	"slices"

	"dcm/internal/gpu/partition"
)

// HoldingModule is a kernel module that holds a GPU while it is loaded. The GPU cannot be reset
// meanwhile.
type HoldingModule struct {
	Name   string
	Nodes  []string // device nodes that keep the module loaded while a process has them open
	Remedy string   // what the administrator can do; a sentence without a period
}

// HoldingModules returns the modules that hold GPUs which the steps may reset, each once.
func HoldingModules(steps partition.Steps, devices []Device) []HoldingModule {
	var out []HoldingModule
	for _, d := range devices {
		known := func(m HoldingModule) bool { return m.Name == d.HeldBy.Name }
		switched := func(s partition.Step) bool { return s.Kind.MayReset() && s.GPU == d.Address }
		if d.HeldBy != nil && slices.ContainsFunc(steps, switched) && !slices.ContainsFunc(out, known) {
			out = append(out, *d.HeldBy)
		}
	}
	return out
}

// ModulePrograms replaces modprobe and rmmod for the modules that are not drivers.
func ModulePrograms(load, remove string) Option {
	return func(n *Node) { n.modprobe, n.rmmod = []string{load}, []string{remove} }
}
