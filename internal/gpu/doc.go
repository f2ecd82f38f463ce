// Package gpu inspects and changes the GPUs of a node. A [Node] combines the GPUs of all
// vendors in PCI order, runs each step through the right [Vendor], and finds the processes
// that hold GPUs. It knows the PCI bus and no driver.
//
// Retries, undo and the order of steps belong to the callers, as do units and profiles.
//
// Subpackages: partition (vocabulary and planner), amdgpu and nvidia (vendors), amdsmi and
// nvml (their libraries), openfiles (scan of open files), modprobe (module options). The
// group must not import any group but linux and worker.
package gpu
