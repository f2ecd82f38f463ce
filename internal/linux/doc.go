// Package linux groups the packages that use the kernel and systemd: attributes in sysfs, inotify and
// uevents, the journal, PID 1 over D-Bus, the device cgroup, container device files, process identity.
// These packages do not know GPUs and profiles. They must not import any other group.
package linux
