// Package gather reads the parts of a host's status: GPUs, units, reservations, the last run, usage.
// package status evaluates them.
//
// It is the only package of frontends that may import leases. It must not import app or another
// frontend.
package gather
