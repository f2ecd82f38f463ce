// Package linux groups what dcm uses of the kernel and of systemd: attributes in sysfs,
// inotify and uevents, the journal, PID 1 over D-Bus, the device cgroup, container device
// files, process identity. These packages know nothing of GPUs and profiles. They
// must not import any other group.
package linux
