// Package e2e runs dcm where it will run: in a container with a real systemd as
// PID 1, the real package, and a simulated GPU node where the kernel's would be.
// It serves the end-to-end tests and the demo.
//
// A container needs root, systemd-nspawn, overlayfs and /dev/fuse. Nothing of it
// is left when its processes are gone: all mounts live in a mount namespace of
// their own, all processes in one cgroup, and a container whose test has died
// powers itself off.
package e2e
