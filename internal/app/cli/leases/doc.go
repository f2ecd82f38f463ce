// Package leases has the commands for leases, their wait queue and the guard.
package leases
