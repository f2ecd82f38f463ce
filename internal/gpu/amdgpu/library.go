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

// Library lets the node ask AMD's library for what sysfs does not tell. With
// sets, modes are set through it, too, and read back through sysfs.
func Library(s SMI, sets bool) Option {
	return func(n *Node) { n.smi, n.setThroughSMI, n.smiSemaphore = &s, sets, make(chan struct{}, 1) }
}

// Enrich adds to the devices what the library tells of them, matched by PCI
// address: name, serial, UUID and the driver's version. Nothing that sysfs told
// is replaced. Without [Library] it does nothing, nor where the library is not
// installed and need not be.
//
// An error leaves the devices as they are: they are complete without it. It is
// an [*SMIError].
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

// Library names libamd_smi, or says why it is not used.
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

// DisagreementError is a mode set through the library that sysfs does not show,
// or that the library reads otherwise than sysfs.
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

// Unwrap makes it the mismatch that it is for sysfs.
func (e *DisagreementError) Unwrap() error {
	return &MismatchError{e.GPU, e.File, e.Want, e.ReadFile}
}

func (e *DisagreementError) Hint() string {
	return `Set [gpu] backend = "auto", so that modes are set through sysfs.`
}

// setThrough is one write of a mode through the library. The library is gone
// again when it returns. Only one is at work at a time: it enumerates all GPUs,
// and another's switch would change them under it.
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

// inReset tells the EPERM of a GPU in reset from the other errors that the
// library gives the same status: a mode that the device lists is supported.
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

// compare returns the error of a set through the library after which sysfs reads
// something else than the library; nil when there is none. err is the set's own:
// a library that read back a wrong mode itself disagrees at least with what was
// wanted.
func (c *change) compare(now string, err error) error {
	var failed *SMIError
	mismatch := errors.As(err, &failed) && failed.Kind == "mismatch"
	if !mismatch && (err != nil || c.library.After == now) {
		return nil
	}
	return &DisagreementError{c.gpu, c.to, c.library.Library, c.library.Number, c.library.After, c.file, now}
}
