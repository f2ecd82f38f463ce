// Package leaseservice serves leases on this host. [Service] answers the daemon's callers,
// [lease.Allocator] decides, and [Host] does on the machine what it decides: it reads
// allocations from PID 1 and the open files, and moves callers into scopes. The package
// knows no run of dcm-apply.service but its lock.
package leaseservice
