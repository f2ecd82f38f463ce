// Package gpu is a node: the GPUs of every vendor in PCI order, each step to its
// vendor, the processes that hold any of them. It knows the PCI bus and no driver;
// what a driver shows, does and means, its [Vendor] knows.
//
// When to try again, what to undo and in which order to change things is its
// callers' to know, as are units and profiles.
package gpu
