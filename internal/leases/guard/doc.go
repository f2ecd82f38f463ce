// Package guard reads the state of dcm-guard.service on a host: whether the kernel enforces the
// exclusive partitions that it has to, and which processes had one open before.
//
// It must not import frontends or app. The guard's program itself is in linux/devguard.
package guard
