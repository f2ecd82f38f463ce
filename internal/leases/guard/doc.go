// Package guard reads the state of dcm-guard.service: whether the kernel keeps other processes from
// opening exclusive partitions, and which processes opened one before it was exclusive.
//
// It must not import frontends or app. The guard's program itself is in linux/devguard.
package guard
