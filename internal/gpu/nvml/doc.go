// Package nvml defines the request and the reply of dcm-nvml, the only program that loads
// NVIDIA's libnvidia-ml. It loads and runs nothing itself; package
// dcm/internal/gpu/nvml/binding executes requests.
//
// # Request
//
// One JSON object:
//
//	do         "look" (read), "mode", "fill" (create) or "clear" (destroy)
//	library    path of the library; absent: libnvidia-ml.so.1 in the usual places
//	gpus       PCI addresses, for a read
//	usage      true: a read includes memory in use and utilization
//	nodes      true: a read may create missing device nodes, since a change follows
//	gpu        PCI address, for a change, which is always for one GPU
//	on         true or false, for "mode"
//	instances  for "fill": [{"profile": "3g.40gb", "start": 4, "compute": ["1c.3g.40gb"]}];
//	           for "clear", without compute: those to destroy; absent: all
//
// "mode" destroys the compute instances and then the GPU instances of the GPU before it sets
// the mode. "fill" creates instances in the given order, each with the given placement, in
// addition to the existing ones. Without compute it creates one compute instance that spans
// the GPU instance. "clear" destroys the given instances, and leaves the others as they are.
//
// # Reply
//
// One JSON object on one line, see [Reply]. After a change, successful or not, gpus[0] is the
// state that was read back with new handles. If part of a read fails for one GPU, that GPU has
// an error or a note.
package nvml
