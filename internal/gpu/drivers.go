package gpu

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"golang.org/x/sys/unix"

	"dcm/internal/gpu/modprobe"
)

// Drivers are the drivers of a node's GPUs, and the kernel modules that hold these.
type Drivers struct{ node *Node }

// Traits returns the traits of every vendor, with or without a GPU.
func (d Drivers) Traits() []Traits {
	var all []Traits
	for _, v := range d.node.bus.vendors {
		all = append(all, v.Traits)
	}
	return all
}

// Loaded reports whether the drivers of the GPUs on the bus are loaded. Only drivers that a
// step can unload count.
func (d Drivers) Loaded() bool {
	if len(unloaded(d.node.bus.vendors)) == 0 {
		return true // the bus need not be read
	}
	present, _ := d.node.bus.present() // all vendors, if the bus cannot be read
	return len(unloaded(present)) == 0
}

// Load loads the drivers that are not loaded, for example after a reload that was killed.
func (d Drivers) Load(ctx context.Context) error {
	present, err := d.node.bus.present()
	if err != nil {
		return err
	}
	for _, v := range unloaded(present) {
		if err := v.Loader.Load(ctx); err != nil {
			return withVendor(v, err)
		}
	}
	return nil
}

// unloaded returns the vendors whose driver is not loaded.
func unloaded(vendors []Vendor) []Vendor {
	return slices.DeleteFunc(slices.Clone(vendors), func(v Vendor) bool { return v.Loader == nil || v.Loader.Loaded() })
}

// ModuleLoaded reports whether the kernel module is loaded.
func (d Drivers) ModuleLoaded(name string) bool { return Module{d.node.bus.sys, name}.Loaded() }

// UnloadModule unloads the kernel module, and none of those that it depends on: these may hold the
// state of the GPUs.
func (d Drivers) UnloadModule(ctx context.Context, name string) error {
	m := Module{d.node.bus.sys, name}
	err := modprobe.Remove.Run(ctx, d.node.rmmod, name)
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
func (d Drivers) LoadModule(ctx context.Context, name string) error {
	if d.ModuleLoaded(name) {
		return nil
	}
	if err := modprobe.Modprobe.Run(ctx, d.node.modprobe, name); err != nil {
		return fmt.Errorf("cannot load %s: %w", name, err)
	}
	return nil
}
