// Package systemd is everything dcm says to PID 1 and hears from it: the state
// of units and the one restart job over D-Bus, the text of the generator's
// drop-ins, and the notifications of sd_notify(3).
//
// It never asks for a unit to be stopped or started. It does not know what the
// units are for, nor why one is restarted.
package systemd
