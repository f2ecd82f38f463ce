package exitcode

import "syscall"

// Entry is an exit status of commands of dcm(1).
type Entry struct {
	Status   int
	Commands []string // nil: all commands
	When     string
	Daemon   bool // needs a running daemon; the end-to-end tests cover it
}

// Table returns every exit status of every command, sorted by status. Section EXIT STATUS of
// the manual is generated from it. A command that dcm run executes has its own statuses.
func Table() []Entry {
	interrupted, terminated := SignalError{Signal: syscall.SIGINT}, SignalError{Signal: syscall.SIGTERM}
	following := []string{"apply", "use", "undo"}
	return []Entry{
		{Status: OK, When: "success"},
		{Status: OK, Commands: []string{"status"}, When: "everything is in order"},
		{Status: OK, Commands: []string{"plan", "verify"}, When: "the GPUs match the profile"},
		{Status: OK, Commands: []string{"selftest"}, When: "the test found no error"},
		{Status: Failed, When: "failure; standard error has the reason"},
		{Status: Failed, Commands: []string{"status"}, When: "a warning", Daemon: true},
		{Status: Failed, Commands: []string{"plan"}, When: "the profile cannot be applied, or would be refused now"},
		{Status: Failed, Commands: []string{"check"}, When: "the selected profile does not fit the GPUs"},
		{Status: Failed, Commands: []string{"run", "release", "queue"}, When: "dcm.service is not running", Daemon: true},
		{Status: Differs, Commands: []string{"plan"}, When: "there are changes to make"},
		{Status: Differs, Commands: []string{"verify"}, When: "the GPUs do not match the profile, or one is missing"},
		{Status: Differs, Commands: []string{"status"}, When: "an alarm: a GPU or a client is not as configured"},
		{Status: Differs, Commands: []string{"selftest"}, When: "the test found an error"},
		{Status: Unseen, Commands: []string{"status"}, When: "the state is unknown"},
		{Status: Overtaken, Commands: following, When: "another profile was selected before the daemon was idle", Daemon: true},
		{Status: Overtaken, Commands: []string{"confirm"}, When: "no selection has to be confirmed"},
		{Status: Usage, When: "the command line has an error"},
		{Status: Permanent, Commands: []string{"run"}, When: "reservations or limits make the request impossible, or no partition has that vendor or mode", Daemon: true},
		{Status: Permanent, Commands: []string{"oneshot"}, When: "the GPUs do not support the profile, and a retry does not help"},
		{Status: Permanent, Commands: []string{"daemon"}, When: "the same, unless systemd restarted it automatically", Daemon: true},
		{Status: Transient, Commands: []string{"run"}, When: "too few partitions are free, earlier requests wait, or a run changes the GPUs", Daemon: true},
		{Status: Transient, When: "a change reloads the driver of the GPUs, and a signal ended the wait for it", Daemon: true},
		{Status: Transient, Commands: following, When: "the profile cannot be applied now; the daemon retries", Daemon: true},
		{Status: Transient, Commands: []string{"run", "release", "queue", "apply", "use"}, When: "dcm.service is starting and did not answer within 10 seconds, or you have too many concurrent calls", Daemon: true},
		{Status: Transient, Commands: []string{"selftest"}, When: "nothing was changed, because the GPUs are in use", Daemon: true},
		{Status: Transient, Commands: []string{"oneshot"}, When: "a GPU is busy or in reset, or another run is in progress"},
		{Status: Transient, Commands: []string{"daemon"}, When: "the same, unless systemd restarted it automatically", Daemon: true},
		{Status: Config, When: "the configuration has an error"},
		{Status: NotExecutable, Commands: []string{"run"}, When: "the command cannot be executed"},
		{Status: NotFound, Commands: []string{"run"}, When: "the command or its interpreter does not exist"},
		{Status: interrupted.Status(), Commands: []string{"run", "apply"}, When: "interrupted (SIGINT) before the work was done; dcm dies of that signal", Daemon: true},
		{Status: terminated.Status(), Commands: []string{"run", "apply"}, When: "terminated (SIGTERM) before the work was done; dcm dies of that signal", Daemon: true},
	}
}
