package host

import "path/filepath"

// Locks are the files that the processes of dcm lock, see package filelock.
type Locks struct{ dir string }

// Run returns the file that a run locks.
func (l Locks) Run() string { return filepath.Join(l.dir, "apply.lock") }

// Leases returns the file that is locked during a run, and while a lease is granted.
func (l Locks) Leases() string { return filepath.Join(l.dir, "leases.lock") }

// Make returns the file that is locked while a MIG instance is created for a lease or destroyed
// after it, and during a run.
func (l Locks) Make() string { return filepath.Join(l.dir, "make.lock") }

// Gate returns the file that the daemon locks while it queues the jobs of a change of single
// GPUs, and that dcm-change.service locks while it runs.
func (l Locks) Gate() string { return filepath.Join(l.dir, "gate.lock") }
