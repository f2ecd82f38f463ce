package amdgpu

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"dcm/internal/gpu"
	"dcm/internal/gpu/partition"
	"dcm/internal/linux/sysfs"
)

// SetError is a mode change that failed, possibly half-way.
type SetError struct {
	GPU      partition.Address
	File     string // path of the mode file
	From, To string // From is "" if it could not be read
	Now      string // read after the failure; "" if it could not be read
	Err      error

	NodeCheck bool // the driver checks all GPUs of the node, see [gpu.BusyCheckNode]
}

func (e *SetError) Error() string {
	text := "cannot set " + e.To + " on " + string(e.GPU)
	if e.From != "" {
		text += " (" + e.From + ")"
	}
	if why := meaning(e).text; why != "" {
		text += ": " + why
	}
	text += ": " + e.Err.Error()
	if e.Now != "" && e.Now != e.From {
		text += "; it now reads " + e.Now
	}
	return text
}

func (e *SetError) Unwrap() error { return e.Err }

// Gone returns the GPU if it or its driver was gone, else "".
func (e *SetError) Gone() partition.Address {
	if meaning(e).hint == hintGPULost {
		return e.GPU
	}
	return ""
}

// BusyNode reports that a process on any GPU may be the cause.
func (e *SetError) BusyNode() bool { return e.NodeCheck && errors.Is(e.Err, unix.EBUSY) }

// MismatchError is a mode change that the driver reported as done and does not show. A retry
// does not help.
type MismatchError struct {
	GPU       partition.Address
	File      string
	Want, Got string
}

func (e *MismatchError) Error() string {
	return fmt.Sprintf("set %s on %s, but %s reads %s", e.Want, e.GPU, filepath.Base(e.File), e.Got)
}

func (e *MismatchError) Hint() string {
	return "see the kernel log: the driver did not do what it reported"
}

// modeSetter changes the modes of GPUs.
type modeSetter struct {
	roots   gpu.Roots
	busy    retry // of a write to a busy GPU
	writes  *pendingWrites
	library *smiSetter // nil: modes are written to sysfs
	check   *checkEvidence
}

func newModeSetter(r gpu.Roots, s settings, check *checkEvidence) *modeSetter {
	m := &modeSetter{roots: r, busy: s.busy, writes: &pendingWrites{}, check: check}
	if s.setThroughSMI {
		m.library = newSMISetter(*s.smi, r)
	}
	return m
}

// setCompute switches the GPU's compute mode and reads it back. The undo is setCompute with
// the old mode. A write to a busy GPU is retried until the given time.
//
// If ctx ends while the driver hangs in the write, setCompute returns. The write cannot be
// cancelled and may still take effect.
func (m *modeSetter) setCompute(ctx context.Context, gpu partition.Address, to partition.Compute, until time.Time) error {
	c := change{gpu: gpu, file: m.roots.AttributePath(gpu, computeFile), to: string(to)}
	before := m.check.begin(gpu)
	now, err := m.set(ctx, &c, until)
	if err == nil && now != c.to {
		err = &MismatchError{gpu, c.file, c.to, now}
	}
	switch {
	case err == nil && c.from != c.to:
		before.succeeded()
	case errors.Is(err, unix.EBUSY):
		before.failed(ctx)
		if failed, ok := errors.AsType[*SetError](err); ok {
			failed.NodeCheck = before.onNode()
		}
	}
	return err
}

// setMemory requests the memory mode for the GPU's whole hive. It becomes active at the next
// driver load. Until then the driver shows the old mode, so that the request cannot be read
// back.
//
// The undo is a driver load before another request. A request for the current mode does not
// cancel the earlier one (current_memory_partition_store returns before it records).
func (m *modeSetter) setMemory(ctx context.Context, gpu partition.Address, to partition.Memory) error {
	c := change{gpu: gpu, file: m.roots.AttributePath(gpu, memoryFile), to: string(to)}
	now, err := m.set(ctx, &c, m.busy.until())
	if err == nil && now != c.to && now != c.from {
		err = &MismatchError{gpu, c.file, c.to, now}
	}
	return err
}

// setSetting sets one of the [partition.Settings] to the driver's text, and reads it back. The undo is setSetting
// with the old text. The driver does not refuse it while the GPU is in use. AMD's library is not used for it.
func (m *modeSetter) setSetting(ctx context.Context, gpu partition.Address, file, to string) error {
	sysfsOnly := modeSetter{roots: m.roots, busy: m.busy, writes: m.writes}
	c := change{gpu: gpu, file: m.roots.AttributePath(gpu, file), to: to}
	now, err := sysfsOnly.set(ctx, &c, m.busy.until())
	if err == nil && now != c.to {
		err = &MismatchError{gpu, c.file, c.to, now}
	}
	return err
}

// setIsolation sets the isolation of each partition that the GPU has now.
func (m *modeSetter) setIsolation(ctx context.Context, gpu partition.Address, to partition.Isolation) error {
	now, err := readWithin(ctx, m.roots.AttributePath(gpu, isolationFile))
	if err != nil {
		return &SetError{GPU: gpu, File: m.roots.AttributePath(gpu, isolationFile), To: "isolation " + string(to), Err: err}
	}
	return m.setSetting(ctx, gpu, isolationFile, to.Numbers(len(strings.Fields(now))))
}

type change struct {
	gpu            partition.Address
	file, from, to string
	reply          SMISet // reply of AMD's library, if it set the mode
}

// set writes the mode and returns the mode that was read back.
func (m *modeSetter) set(ctx context.Context, c *change, until time.Time) (now string, err error) {
	if c.from, err = c.prepare(ctx); err == nil {
		err = m.busy.run(ctx, until, func() (busy bool, err error) {
			err = m.write(ctx, c)
			return errors.Is(err, unix.EBUSY) || errors.Is(err, unix.EAGAIN) || errors.Is(err, unix.EINTR), err
		})
	}
	// The state that the driver shows counts, even after the deadline.
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), writeGraceTimeout)
	defer cancel()
	if err == nil {
		now, err = readWithin(ctx, c.file)
	} else if c.from != "" {
		// The write may have failed after the switch (EIO).
		now, _ = readWithin(ctx, c.file)
	}
	if m.library != nil {
		if disagreement := c.compare(now, err); disagreement != nil {
			return now, disagreement
		}
	}
	if err != nil {
		return now, &SetError{GPU: c.gpu, File: c.file, From: c.from, To: c.to, Now: now, Err: err}
	}
	return now, nil
}

// write writes the mode once.
func (m *modeSetter) write(ctx context.Context, c *change) (err error) {
	if m.library != nil {
		c.reply, err = m.library.write(ctx, c)
		return err
	}
	return m.writes.run(ctx, c, func() error { return sysfs.Write(c.file, c.to) })
}

// prepare returns the current mode, with an error if it cannot be written.
func (c *change) prepare(ctx context.Context) (string, error) {
	return sysfs.Within(ctx, func() (string, error) {
		own, err := sysfs.OpenDir(filepath.Dir(c.file))
		if err != nil {
			return "", err
		}
		defer own.Close()
		text, err := own.Read(filepath.Base(c.file))
		if err != nil {
			return "", err
		}
		writable, err := ownerWritable(own, filepath.Base(c.file))
		if err == nil && !writable {
			err = errReadOnly
		}
		return text, err
	})
}

func readWithin(ctx context.Context, file string) (string, error) {
	return sysfs.Within(ctx, func() (string, error) { return sysfs.Read(file) })
}
