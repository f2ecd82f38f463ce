// Package gpu is a node: the GPUs of every vendor in PCI order, each step to its
// vendor, the processes that hold any of them. It knows the PCI bus and no driver;
// what a driver shows, does and means, its [Vendor] knows.
//
// When to try again, what to undo and in which order to change things is its
// callers' to know, as are units and profiles.
//
// The packages below it are the vocabulary (partition), the vendors (amdgpu, nvidia), their
// libraries (amdsmi, nvml), the scan of open files (openfiles) and the driver's module
// options (modprobe). The group must not import any group but linux and worker.
package gpu
