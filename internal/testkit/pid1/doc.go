// Package pid1 is a model of systemd as PID 1: units, jobs, transactions, and the states of services.
//
// It is pure. It has one thread, no clock, no processes and no files: the caller passes the time, starts the
// processes that the model requests, and reports their ends. The same calls give the same states.
//
// The rules are those of systemd's src/core: transaction.c, job.c, unit.c, unit-dependency-atom.c, service.c,
// socket.c and path.c. Job types, results and states have the names of org.freedesktop.systemd1(5). Where
// versions differ, the model is systemd 252, or that of [Manager.Version].
//
// Not modelled: the unload of unused units, StopWhenUnneeded=, isolation, reload jobs, ExecStop= and
// ExecStopPost=, watchdogs, cgroups, freezing, user managers, mounts and devices.
package pid1
