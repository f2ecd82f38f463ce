// Package engine groups the way from a configuration file to partitioned GPUs: reading the
// configuration, the sequence of a change and its undo, the daemon's decisions, the state
// and the history of runs, the reboot. These packages must not import leases, frontends or
// app: who holds a partition and who is informed is decided above them.
package engine
