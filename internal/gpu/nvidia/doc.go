// Package nvidia is NVIDIA's GPUs and what MIG makes of them. To the node ([gpu.Node])
// it is one vendor.
//
// That the GPUs are there, and who has them open, it sees in /sys, /proc and /dev. All
// else the driver tells to its library alone, libnvidia-ml, which dcm-nvml loads: one
// request, one answer, a deadline. Without the module nothing is asked, since the
// library would load it and make device nodes. It never resets a GPU by itself, never
// unloads the driver, and asks nothing of nvidia-smi.
package nvidia
