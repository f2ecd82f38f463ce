// Package dropins keeps loaded what a generator wrote for PID 1, and what was started
// without it from staying so.
//
// PID 1 runs its generators again in each daemon-reload and daemon-reexec, whoever
// requested it, and forgets what they wrote before. If a generator is killed or masked
// there, units lose their drop-ins: their device lists, their slices and their order. PID 1
// reports that to nobody, so the package compares after each reload.
//
// It does not know what the drop-ins say, and reads no configuration.
package dropins
