package amdgpu

import (
	"context"
	"errors"
	"fmt"
	"time"

	"golang.org/x/sys/unix"

	"dcm/internal/gpu"
	"dcm/internal/gpu/modprobe"
)

// ReloadError is a failed reload of the driver.
type ReloadError struct {
	UnloadFailed bool // the unload has failed
	Loaded       bool // the driver is loaded now
	Err          error
}

func (e *ReloadError) Error() string {
	switch {
	case e.UnloadFailed && errors.Is(e.Err, context.DeadlineExceeded):
		return fmt.Sprintf("%s did not unload in time and may be left unloaded: %v", driver, e.Err)
	case e.UnloadFailed:
		return fmt.Sprintf("cannot unload %s; nothing was changed, and a requested memory mode stays pending: %v", driver, e.Err)
	case e.Loaded:
		return fmt.Sprintf("%s reported a failure when it was loaded: %v", driver, e.Err)
	}
	return fmt.Sprintf("cannot load %s, the driver is not loaded: %v", driver, e.Err)
}

func (e *ReloadError) Unwrap() error { return e.Err }

// DriverInUse reports whether the unload has failed.
func (e *ReloadError) DriverInUse() bool { return e.UnloadFailed }

// Hint says what to do about it.
func (e *ReloadError) Hint() string {
	if errors.Is(e.Err, modprobe.ErrKilled) {
		return "see the kernel log for what killed modprobe, for example a lack of memory; dcm retries"
	}
	if e.UnloadFailed {
		return "end what uses the driver (see 'dcm holders'; a console and snd_hda_intel count too), or reboot"
	}
	return "load the driver with 'modprobe " + driver + "' and see the kernel log, or reboot"
}

// module is the kernel module of the driver. It is a [gpu.DriverLoader].
type module struct {
	gpu.Module
	modprobe []string // see [Modprobe]
	busy     retry    // of an unload while the driver is in use
}

// loadTimeout is the time for a driver load after the caller's deadline.
const loadTimeout = 2 * time.Minute

// reload unloads and loads the driver. After the load, requested memory modes are active,
// and the driver has selected each compute mode.
//
// Once the driver is unloaded, it is loaded again even if ctx has ended, since a node must
// not stay without its driver.
func (m *module) reload(ctx context.Context) error {
	if err := m.unload(ctx); err != nil {
		return &ReloadError{UnloadFailed: true, Loaded: true, Err: err}
	}
	if err := m.load(ctx); err != nil {
		return &ReloadError{Loaded: m.Loaded(), Err: err}
	}
	return nil
}

// unload retries while the driver is in use, up to the busy timeout. It checks the module
// and not the exit status, since modprobe -r may fail for another module that amdgpu used.
func (m *module) unload(ctx context.Context) error {
	return m.busy.run(ctx, m.busy.until(), func() (busy bool, err error) {
		err = modprobe.Modprobe.Run(ctx, m.modprobe, "-r", driver)
		if !m.Loaded() {
			return false, nil
		}
		return errors.Is(err, unix.EBUSY), err
	})
}

// Load loads the driver if it is not loaded, for example after a reload that was killed.
func (m *module) Load(ctx context.Context) error {
	if m.Loaded() {
		return nil
	}
	if err := m.load(ctx); err != nil {
		return &ReloadError{Loaded: m.Loaded(), Err: err}
	}
	return nil
}

// load tries twice.
func (m *module) load(ctx context.Context) error {
	first := m.tryLoad(ctx)
	if first == nil {
		return nil
	}
	second := m.tryLoad(ctx)
	if second == nil {
		return nil
	}
	if first.Error() == second.Error() {
		return fmt.Errorf("%w (twice)", second)
	}
	return errors.Join(first, second)
}

func (m *module) tryLoad(ctx context.Context) error {
	if end, ok := ctx.Deadline(); ctx.Err() != nil || ok && time.Until(end) < loadTimeout {
		alone, cancel := context.WithTimeout(context.WithoutCancel(ctx), loadTimeout)
		defer cancel()
		ctx = alone
	}
	return modprobe.Modprobe.Run(ctx, m.modprobe, driver)
}
