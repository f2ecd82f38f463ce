package amdgpu

import (
	"context"
	"errors"
	"fmt"

	"dcm/internal/partition"
)

// Device is a display or accelerator function on the PCI bus.
type Device struct {
	partition.GPU        // Compute is "" on what cannot be partitioned; Why tells
	Why           string // why the GPU is left alone; "" if it is partitionable

	Vendor      uint16
	Model       string   // "MI300X"; "0x1002:0x1234" where not known
	Driver      string   // that is bound; "" if none is
	NUMA        int      // the node it is attached to; -1 where not known
	Card        string   // DRM's name, "card1"; not stable
	RenderNodes []string // of the active partitions, in order: "/dev/dri/renderD128"
	Parts       []Part   // the active partitions, in order
	UniqueID    string   // hexadecimal, as the driver shows it

	// From AMD's library, where it is used; "" otherwise.
	Name, Serial, UUID, DriverVersion string

	// Source tells where a fact came from, for those that have several places:
	// "sysfs", "table" (what dcm knows of the model), or a library's name.
	Source map[string]string
}

const (
	sysfs = "sysfs"
	table = "table"
)

// Partitionable returns the GPUs among devices whose modes the driver shows.
func Partitionable(devices []Device) []partition.GPU {
	var out []partition.GPU
	for _, d := range devices {
		if d.Why == "" {
			out = append(out, d.GPU)
		}
	}
	return out
}

// Devices returns every display and accelerator function in PCI order. Those
// that cannot be partitioned are among them, with Why.
//
// A GPU that could not be read makes an error that names it and is returned
// too, with the error as its Why.
func (n *Node) Devices(ctx context.Context) ([]Device, error) {
	found, err := within(ctx, n.functions)
	if err != nil {
		return nil, fmt.Errorf("cannot look at the GPUs: %w", err)
	}
	var errs []error
	for _, f := range found {
		if f.err != nil {
			errs = append(errs, fmt.Errorf("cannot look at %s: %w", f.Address, f.err))
		}
	}
	return deviceList(found), errors.Join(errs...)
}

func deviceList(found []function) []Device {
	devices := make([]Device, len(found))
	for i, f := range found {
		devices[i] = f.Device
	}
	return devices
}
