// Package e2e runs dcm's package in a container with systemd as PID 1 and a simulated GPU
// node at the paths of the kernel's. The end-to-end tests and the demo use it.
//
// A container needs root, systemd-nspawn, overlayfs and /dev/fuse. Its mounts are in a mount
// namespace of its own and its processes in one cgroup. If its test is killed, it powers
// itself off.
package e2e
