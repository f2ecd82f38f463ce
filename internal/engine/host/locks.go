package host

import (
	"path/filepath"

	"dcm/internal/gpu/partition"
)

// Locks are the files that the processes of dcm lock, see package filelock.
type Locks struct{ dir string }

// Run returns the file that a run locks.
func (l Locks) Run() string { return filepath.Join(l.dir, "apply.lock") }

// Leases returns the file that is locked during a run, and while a lease is granted.
func (l Locks) Leases() string { return filepath.Join(l.dir, "leases.lock") }

// Make returns the file that is locked while GPUs are changed for leases and services, and during a run.
// Changes of MIG instances share it.
func (l Locks) Make() string { return filepath.Join(l.dir, "make.lock") }

// MakeOn returns the file that is locked while the MIG instances of a GPU are changed for leases or services.
func (l Locks) MakeOn(a partition.Address) string {
	return filepath.Join(l.dir, "make-"+string(a)+".lock")
}

// Publish returns the file that is locked while the list of partitions changes after such a change.
func (l Locks) Publish() string { return filepath.Join(l.dir, "publish.lock") }

// Gate returns the file that the daemon locks while it queues the jobs of a change of single
// GPUs, and that dcm-change.service locks while it runs.
func (l Locks) Gate() string { return filepath.Join(l.dir, "gate.lock") }
