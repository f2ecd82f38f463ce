// Package nvml is what dcm and dcm-nvml, the only program that loads NVIDIA's
// libnvidia-ml, say to each other: one [Request], one [Reply]. It loads nothing and
// runs nothing; package dcm/internal/gpu/nvml/binding does what is asked.
//
// # The request
//
// One JSON object:
//
//	do         "look", "mode", "fill" or "clear"
//	library    path of the library; absent: libnvidia-ml.so.1 in the usual places
//	gpus       PCI addresses, for a look
//	usage      true: a look tells of memory and utilization too
//	nodes      true: a look may make device nodes that are missing; a change follows
//	gpu        PCI address, for a change, which is always one of one GPU
//	on         true or false, for "mode"
//	instances  for "fill": [{"profile": "3g.40gb", "start": 4, "compute": ["1c.3g.40gb"]}]
//
// "mode" destroys the compute instances and then the GPU instances of the GPU before
// it sets the mode. "fill" adds instances to those that are there, in the order given,
// each in the memory slots that it names; without compute it makes one compute instance
// that spans the GPU instance. "clear" destroys all instances.
//
// # The answer
//
// One JSON object on one line, see [Reply]. A change tells of the GPU as it is read
// back, by handles got afterwards, whether it succeeded or not: gpus[0] is what is there
// now. What of a look fails for one GPU is that GPU's error, or a note.
package nvml
