// Package leaseservice serves leases on this host. [Service] answers the daemon's callers and
// [lease.Allocator] decides. The other types implement its view of the host: [Partitions] reads the
// allocations from PID 1 and the open files, a move puts a caller into a scope, and dcm-guard.service
// protects the lease. Of a run of dcm-apply.service the package knows only the lock.
package leaseservice
