// Package lease allocates partitions to processes.
//
// PID 1 is the only record of allocations: a lease is a scope in dcm.slice, its partitions are the
// devices in the scope's DeviceAllow=, and it ends with the scope. So no crash of the daemon loses or
// changes an allocation.
//
// [Allocator] answers requests. Its queue orders them, its policy applies the limits and chooses
// partitions, a server decides which request is next, and a starter creates the scope. A process gets
// a lease by being moved into the scope ([Move]). The package does not know D-Bus, how partitions are
// found, or which users may call.
package lease
