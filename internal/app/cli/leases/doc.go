// Package leases has the commands that take and end leases, and that switch the guard.
package leases
