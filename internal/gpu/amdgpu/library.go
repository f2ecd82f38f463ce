package amdgpu

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"

	"golang.org/x/sys/unix"

	"dcm/internal/gpu"
	"dcm/internal/gpu/partition"
	"dcm/internal/linux/sysfs"
)

// Library permits the use of AMD's library for facts that sysfs lacks. If sets is true,
// modes are also set through it; they are still read back through sysfs.
func Library(s SMI, sets bool) Option {
	return func(n *Node) { n.smi, n.setThroughSMI, n.smiSemaphore = &s, sets, make(chan struct{}, 1) }
}

// Enrich adds name, serial, UUID and driver version from the library. It replaces no fact of
// sysfs. It does nothing without [Library], or if an optional library is not installed.
//
// The error is an [*SMIError]. After it the devices are unchanged.
func (n *Node) Enrich(ctx context.Context, devices []*gpu.Device) error {
	if n.smi == nil {
		return nil
	}
	found, err := n.smi.Inventory(ctx)
	var failed *SMIError
	if !n.setThroughSMI && errors.As(err, &failed) && failed.Absent() {
		return nil
	}
	if err != nil {
		return err
	}
	for _, d := range devices {
		at := slices.IndexFunc(found.GPUs, func(g SMIGPU) bool { return g.Address == d.Address })
		if at >= 0 {
			enrich(d, found.GPUs[at], found.Library.String())
		}
	}
	return nil
}

// Library returns the name of the library and its version, or why it is not used.
func (n *Node) Library(ctx context.Context) (name, state string) {
	const library = "libamd_smi"
	if n.smi == nil {
		return library, `not used ([gpu] backend = "sysfs")`
	}
	found, err := n.smi.Version(ctx)
	var failed *SMIError
	switch {
	case errors.As(err, &failed) && failed.Absent():
		return library, "none (" + failed.Err.Error() + ")"
	case err != nil:
		return library, "unusable: " + err.Error()
	}
	return library, found.String() + ", " + found.File
}

func enrich(d *gpu.Device, g SMIGPU, source string) {
	sources := make(map[string]string)
	for k, v := range d.Source {
		sources[k] = v
	}
	add := func(fact string, to *string, value string) {
		if *to == "" && value != "" {
			*to, sources[fact] = value, source
		}
	}
	add("name", &d.Name, g.Name)
	add("serial", &d.Serial, g.Serial)
	add("uuid", &d.UUID, g.UUID)
	add("driver_version", &d.DriverVersion, g.DriverVersion)
	d.Source = sources
}

// DisagreementError means that the library set a mode and sysfs shows another one than the
// library.
type DisagreementError struct {
	GPU         partition.Address
	Want        string
	Library     SMILibrary
	Number      uint32
	ReadLibrary string
	File        string
	ReadFile    string
}

func (e *DisagreementError) Error() string {
	return fmt.Sprintf("set %s on %s through %s (number %d): the library reads %s, but %s reads %s",
		e.Want, e.GPU, e.Library, e.Number, e.ReadLibrary, filepath.Base(e.File), e.ReadFile)
}

// Unwrap returns the mismatch of sysfs.
func (e *DisagreementError) Unwrap() error {
	return &MismatchError{e.GPU, e.File, e.Want, e.ReadFile}
}

func (e *DisagreementError) Hint() string {
	return `Set [gpu] backend = "auto", so that modes are set through sysfs.`
}

// setThrough sets a mode through the library once. Only one set runs at a time, since the
// library enumerates all GPUs and another switch changes them.
func (n *Node) setThrough(ctx context.Context, c *change) (SMISet, error) {
	select {
	case n.smiSemaphore <- struct{}{}:
		defer func() { <-n.smiSemaphore }()
	case <-ctx.Done():
		return SMISet{}, ctx.Err()
	}
	if filepath.Base(c.file) == computeFile {
		set, err := n.smi.SetCompute(ctx, c.gpu, partition.Compute(c.to))
		return set, n.detectReset(c, availableComputeFile, err)
	}
	set, err := n.smi.SetMemory(ctx, c.gpu, partition.Memory(c.to))
	return set, n.detectReset(c, availableMemoryFile, err)
}

// detectReset replaces the library's error with EPERM if the GPU is in reset. The library
// has the same status for several errors; a mode that the device lists is supported, so that
// a reset remains.
func (n *Node) detectReset(c *change, list string, err error) error {
	var failed *SMIError
	if !errors.As(err, &failed) || failed.Status != statusUnsupported {
		return err
	}
	listed, listErr := sysfs.Optional(n.pci(c.gpu, list))
	if listErr == nil && slices.Contains(strings.Split(listed, ", "), c.to) {
		failed.Err = &statusError{failed.Err.Error(), unix.EPERM}
	}
	return err
}

// compare returns an error if sysfs shows another mode than the library after a set. err is
// the error of the set; a mismatch that the library itself found counts.
func (c *change) compare(now string, err error) error {
	var failed *SMIError
	mismatch := errors.As(err, &failed) && failed.Kind == "mismatch"
	if !mismatch && (err != nil || c.library.After == now) {
		return nil
	}
	return &DisagreementError{c.gpu, c.to, c.library.Library, c.library.Number, c.library.After, c.file, now}
}
