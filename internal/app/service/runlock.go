package service

import (
	"errors"

	"dcm/internal/engine/host"
	"dcm/internal/exitcode"
	"dcm/internal/linux/filelock"
)

// lockForRun excludes other runs, new leases, and changes of the instances of leases, until release is
// called.
func lockForRun(h *host.Host) (release func(), err error) {
	run, err := filelock.TryLock(h.Locks().Run())
	if errors.Is(err, filelock.ErrLocked) {
		err = errors.New("another run is under way")
	}
	if err != nil {
		return nil, exitcode.With(exitcode.Transient, err)
	}
	leases, err := filelock.Lock(h.Locks().Leases())
	if err != nil {
		run()
		return nil, exitcode.With(exitcode.Transient, err)
	}
	instances, err := filelock.Lock(h.Locks().Make())
	if err != nil {
		leases()
		run()
		return nil, exitcode.With(exitcode.Transient, err)
	}
	return func() { instances(); leases(); run() }, nil
}
