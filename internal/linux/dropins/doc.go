// Package dropins makes PID 1 load the drop-ins of a generator again if they are lost, and
// restarts units that were started without theirs.
//
// PID 1 runs its generators again in each daemon-reload and daemon-reexec, and forgets their
// previous output. If a generator is killed or masked then, units lose their drop-ins: their
// device lists, their slices and their order. PID 1 does not report that, so the package compares
// the files after each reload.
//
// It does not interpret the drop-ins and reads no configuration.
package dropins
