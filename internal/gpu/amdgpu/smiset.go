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
	return `set [gpu] backend = "auto", so that modes are set through sysfs`
}

// smiSetter sets modes through the library. Only one set runs at a time, since the library
// enumerates all GPUs and another switch changes them.
type smiSetter struct {
	SMI
	roots     gpu.Roots
	semaphore chan struct{}
}

func newSMISetter(smi SMI, r gpu.Roots) *smiSetter {
	return &smiSetter{smi, r, make(chan struct{}, 1)}
}

// write sets a mode once.
func (s *smiSetter) write(ctx context.Context, c *change) (SMISet, error) {
	select {
	case s.semaphore <- struct{}{}:
		defer func() { <-s.semaphore }()
	case <-ctx.Done():
		return SMISet{}, ctx.Err()
	}
	if filepath.Base(c.file) == computeFile {
		set, err := s.SetCompute(ctx, c.gpu, partition.Compute(c.to))
		return set, s.detectReset(c, availableComputeFile, err)
	}
	set, err := s.SetMemory(ctx, c.gpu, partition.Memory(c.to))
	return set, s.detectReset(c, availableMemoryFile, err)
}

// detectReset replaces the library's error with EPERM if the GPU is in reset. The library
// has the same status for several errors; a mode that the device lists is supported, so that
// a reset remains.
func (s *smiSetter) detectReset(c *change, list string, err error) error {
	var failed *SMIError
	if !errors.As(err, &failed) || failed.Status != statusUnsupported {
		return err
	}
	listed, listErr := sysfs.Optional(s.roots.AttributePath(c.gpu, list))
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
	if !mismatch && (err != nil || c.reply.After == now) {
		return nil
	}
	return &DisagreementError{c.gpu, c.to, c.reply.Library, c.reply.Number, c.reply.After, c.file, now}
}
