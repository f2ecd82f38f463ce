package service

import (
	"dcm/internal/app/host"
	"dcm/internal/engine/apply"
	"dcm/internal/exitcode"
)

// lockForRun keeps other runs out, and has nobody given a lease, until release is called.
func lockForRun(h *host.Host) (release func(), err error) {
	run, err := apply.Lock(h.Lock())
	if err != nil {
		return nil, exitcode.With(exitcode.Transient, err)
	}
	leases, err := apply.Await(h.Leases())
	if err != nil {
		run()
		return nil, exitcode.With(exitcode.Transient, err)
	}
	return func() { leases(); run() }, nil
}
