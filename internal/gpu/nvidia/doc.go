// Package nvidia is the [gpu.Vendor] for NVIDIA's GPUs and MIG.
//
// It finds the GPUs and their holders in /sys, /proc and /dev. The driver reports everything
// else to its library only, libnvidia-ml, which dcm-nvml loads: one request, one reply, a
// timeout. Without the driver module it sends no request, since the library would load the
// module and create device nodes. It never resets a GPU itself, never unloads the driver and
// never runs nvidia-smi.
package nvidia
