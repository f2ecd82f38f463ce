package gpu

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"golang.org/x/sys/unix"

	"dcm/internal/gpu/modprobe"
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

// ModuleLoaded reports whether the kernel module is loaded.
func (n *Node) ModuleLoaded(name string) bool { return Module{n.bus.sys, name}.Loaded() }

// UnloadModule unloads the kernel module, and none of those that it depends on: these may hold the
// state of the GPUs.
func (n *Node) UnloadModule(ctx context.Context, name string) error {
	m := Module{n.bus.sys, name}
	err := modprobe.Remove.Run(ctx, n.rmmod, name)
	switch {
	case !m.Loaded():
		return nil
	case err == nil:
		return fmt.Errorf("cannot unload %s: rmmod succeeded, but the module is still loaded", name)
	case !errors.Is(err, unix.EBUSY):
		return fmt.Errorf("cannot unload %s: %w", name, err)
	}
	if count, _, ok := m.UseCount(); ok {
		return fmt.Errorf("cannot unload %s (use count %d): %w", name, count, err)
	}
	return fmt.Errorf("cannot unload %s: %w", name, err)
}

// LoadModule loads the kernel module if it is not loaded.
func (n *Node) LoadModule(ctx context.Context, name string) error {
	if n.ModuleLoaded(name) {
		return nil
	}
	if err := modprobe.Modprobe.Run(ctx, n.modprobe, name); err != nil {
		return fmt.Errorf("cannot load %s: %w", name, err)
	}
	return nil
}
