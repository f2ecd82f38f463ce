package service

import (
	"dcm/internal/apply"
	"dcm/internal/exit"
	"dcm/internal/host"
)

// alone keeps other runs out, and has nobody given a lease, until release is called.
func alone(h *host.Host) (release func(), err error) {
	run, err := apply.Lock(h.Lock())
	if err != nil {
		return nil, exit.With(exit.Transient, err)
	}
	leases, err := apply.Await(h.Leases())
	if err != nil {
		run()
		return nil, exit.With(exit.Transient, err)
	}
	return func() { leases(); run() }, nil
}
