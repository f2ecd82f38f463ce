// Package sim simulates a node with GPUs of AMD and NVIDIA. It has a state machine with the behaviour of
// the amdgpu driver's partitioning interface, and a FUSE file system that shows the state as a /sys and
// a /dev. Of NVIDIA GPUs it simulates the files of the kernel driver. The stand-in for libnvidia-ml
// changes their MIG instances; it keeps them in a file that this package reads.
//
// The state machine ([Node]) knows no files. It receives writes, opens and module loads, and returns an
// errno, as the driver would. The tree maps its state to paths and contents, and the FUSE file system
// serves the tree. The differences between nodes are data, see [Kinds].
//
// The package has its own tables of the modes that a GPU accepts. With the planner's tables, a test
// could not find an error in them.
package sim
