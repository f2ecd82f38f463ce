// Package leases groups who holds which partition: the allocation, the placement, the
// exclusive holders and the memory limits of shares. The record is what PID 1 knows, so
// these packages store nothing. They must not import frontends or app.
package leases
