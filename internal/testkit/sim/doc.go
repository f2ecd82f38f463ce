// Package sim is a simulated node with GPUs of AMD and NVIDIA: the behaviour of the
// amdgpu driver's partitioning interface as a state machine, and a FUSE file system
// that shows it as a /sys and a /dev. Of NVIDIA's GPUs it shows what the kernel has; what
// their library does to them is the stand-in library's, which keeps it in a file that is
// read here.
//
// The state machine ([Node]) knows no file system: it gets writes, opens
// and module loads and answers with an errno, as the driver would. The tree maps
// its state to paths and contents. The FUSE face serves the tree. What differs
// between nodes is data: see [Kinds].
//
// Which modes a GPU accepts is written down here once more, on purpose: a
// mistake in the planner's tables must not be repeated by what it is tested
// against.
package sim
