// Package systemd is dcm's interface to PID 1: states and jobs of units over D-Bus, the drop-ins
// of the generator, the files of units, and the notifications of sd_notify(3).
//
// It does not decide which units are started, stopped or restarted, nor when.
package systemd
