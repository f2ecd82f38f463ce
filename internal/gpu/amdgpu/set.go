package amdgpu

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"time"

	"golang.org/x/sys/unix"

	"dcm/internal/gpu/partition"
	"dcm/internal/linux/sysfs"
)

// SetError is a change of one GPU that the driver did not make, or that failed
// half-way.
type SetError struct {
	GPU      partition.Address
	File     string // the attribute
	From, To string // From is "" where it could not be read
	Now      string // read back after the failure; "" where it could not be read
	Err      error
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
		text += "; it reads " + e.Now + " now"
	}
	return text
}

func (e *SetError) Unwrap() error { return e.Err }

// MismatchError is a change that the driver reported as made, and that it does
// not show. Trying again does not help.
type MismatchError struct {
	GPU       partition.Address
	File      string
	Want, Got string
}

func (e *MismatchError) Error() string {
	return fmt.Sprintf("set %s on %s, but %s reads %s", e.Want, e.GPU, filepath.Base(e.File), e.Got)
}

func (e *MismatchError) Hint() string {
	return "See the kernel log: the driver did not do what it reported."
}

// SetCompute switches the GPU's compute mode and reads it back.
//
// The undo is SetCompute with the mode it had. When ctx ends while the driver
// hangs in the write, SetCompute returns; the write itself cannot be taken back
// and may still be carried out.
func (n *Node) SetCompute(ctx context.Context, gpu partition.Address, to partition.Compute) error {
	return n.setCompute(ctx, gpu, to, time.Now().Add(n.busyTimeout))
}

func (n *Node) setCompute(ctx context.Context, gpu partition.Address, to partition.Compute, until time.Time) error {
	c := change{gpu: gpu, file: n.pci(gpu, computeFile), to: string(to)}
	now, err := n.execute(ctx, &c, until)
	if err == nil && now != c.to {
		err = &MismatchError{gpu, c.file, c.to, now}
	}
	return err
}

// SetMemory records a request for the memory mode, for the GPU's whole hive. It
// becomes the mode when the driver is loaded the next time; until then the old
// one is shown, so that there is no more to read back than that.
//
// The undo is to load the driver before it is asked for anything else: a request
// for the current mode does not take back an earlier one
// (current_memory_partition_store returns before it records).
func (n *Node) SetMemory(ctx context.Context, gpu partition.Address, to partition.Memory) error {
	c := change{gpu: gpu, file: n.pci(gpu, memoryFile), to: string(to)}
	now, err := n.execute(ctx, &c, time.Now().Add(n.busyTimeout))
	if err == nil && now != c.to && now != c.from {
		err = &MismatchError{gpu, c.file, c.to, now}
	}
	return err
}

type change struct {
	gpu            partition.Address
	file, from, to string
	library        SMISet // what AMD's library tells, where the mode was set through it
}

// carryOut writes the mode and returns what is read back.
func (n *Node) execute(ctx context.Context, c *change, until time.Time) (now string, err error) {
	if c.from, err = c.prepare(ctx); err == nil {
		err = n.write(ctx, c, until)
	}
	// What the driver shows counts, also where the deadline is over by now.
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), writeGraceTimeout)
	defer cancel()
	if err == nil {
		now, err = readWithin(ctx, c.file)
	} else if c.from != "" {
		// It may have failed after it switched (EIO).
		now, _ = readWithin(ctx, c.file)
	}
	if n.setThroughSMI {
		if disagree := c.compare(now, err); disagree != nil {
			return now, disagree
		}
	}
	if err != nil {
		return now, &SetError{c.gpu, c.file, c.from, c.to, now, err}
	}
	return now, nil
}

// prepare returns the mode that the file shows, with an error unless it may be
// written.
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

// write repeats the write while the GPU is busy, until the time given.
func (n *Node) write(ctx context.Context, c *change, until time.Time) error {
	tick := time.NewTicker(n.retryInterval)
	defer tick.Stop()
	for {
		err := n.writeOnce(ctx, c)
		busy := errors.Is(err, unix.EBUSY) || errors.Is(err, unix.EAGAIN) || errors.Is(err, unix.EINTR)
		if !busy || !time.Now().Before(until) {
			return err
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return err
		}
	}
}

// put hands the mode to the driver, once.
func (n *Node) writeOnce(ctx context.Context, c *change) (err error) {
	if n.setThroughSMI {
		c.library, err = n.setThrough(ctx, c)
		return err
	}
	return n.writes.run(ctx, c, func() error { return sysfs.Write(c.file, c.to) })
}

func readWithin(ctx context.Context, file string) (string, error) {
	return sysfs.Within(ctx, func() (string, error) { return sysfs.Read(file) })
}
