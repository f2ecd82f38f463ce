// Package watch signals changes in directories and of devices. It follows directories that are
// created, removed and replaced, and reads the kernel's device events. It does not interpret the
// files.
package watch
