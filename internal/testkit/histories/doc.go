// Package histories runs dcm's daemon and its runs on a model of a host, in one process and in virtual time.
// It makes random histories of changes, edits, failures and kills, and checks the promises of
// dcm-guarantees(7) and liveness. One seed decides a history.
//
// # Replay
//
// A history runs in a bubble of testing/synctest. The clock of the bubble is the scheduler:
//
//   - Each effect of a process (a call of PID 1, a read or write of a file, a device write) first sleeps for a
//     time that the seed, the process, the name of the effect and its count decide, see [process.effect]. Virtual
//     time passes only when all goroutines wait, and two sleeps do not end in the same nanosecond. So one
//     effect happens at a time, in the order that the seed decides.
//   - An effect that product code makes while it holds a mutex happens immediately: the goroutines that wait for a
//     mutex would stop virtual time. Only the report of a run is of this kind.
//   - Events reach the daemon's loop only while it waits for one, so that its select has one choice.
//   - PID 1 (package pid1) and the GPUs (package sim) are state machines. One mutex guards them.
//   - A process that is killed ends at its next effect, and in a switch of a GPU at the end of the switch, by runtime.Goexit. Deferred functions have no
//     effect. What the kernel does at the end of a process (files, locks, connections) happens at the kill.
//   - The daemon's back-off takes its random numbers from the seed.
//
// What can still differ between two runs of a seed: the choice of a select in product code if a timer and a
// channel become ready in the same nanosecond; the order of map iteration, where it reaches a text but no
// order of effects; texts of errors that Go joins in the order of a map. TestReplay runs seeds twice and
// compares all effects and states.
//
// # A failure
//
// A test prints the seed, the checker and the shortest history. To see the journal of a history:
//
//	go test -v -run TestHistories -seed 381 ./internal/testkit/histories
//	go test -v -run TestHistories -seed 381 -minimise "clients come back" ./internal/testkit/histories
//	go test -v -run TestHistories -script known/client-never-settles.txt ./internal/testkit/histories
//
// A violation that is not repaired immediately gets a file in the directory known. TestKnown fails when its history
// violates nothing any more: then the file gets the status "repaired", and stays as a test.
//
// # What is not modelled yet
//
// The command line is modelled by its calls: the note, the selection, Apply and its repetition. Leases, reservations, units that
// create instances, the guard, the messages of D-Bus, the status, metrics, and GPUs with MIG are not part of a history. PID 1
// runs the jobs of a request before it reads the next one; systemd can read several requests first.
package histories
