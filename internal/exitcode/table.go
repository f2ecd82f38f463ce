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
	following := []string{"apply", "use"}
	return []Entry{
		{Status: OK, When: "success"},
		{Status: OK, Commands: []string{"status"}, When: "everything is in order"},
		{Status: OK, Commands: []string{"plan", "verify"}, When: "the GPUs are as the profile says"},
		{Status: OK, Commands: []string{"selftest"}, When: "nothing is wrong"},
		{Status: Failed, When: "failure; standard error has the reason"},
		{Status: Failed, Commands: []string{"status"}, When: "a warning", Daemon: true},
		{Status: Failed, Commands: []string{"plan"}, When: "the profile cannot be applied, or would be refused now"},
		{Status: Failed, Commands: []string{"check"}, When: "the selected profile does not fit the GPUs"},
		{Status: Failed, Commands: []string{"run", "release", "queue"}, When: "dcm.service is not running", Daemon: true},
		{Status: Differs, Commands: []string{"plan"}, When: "there are changes to make"},
		{Status: Differs, Commands: []string{"verify"}, When: "the GPUs are not as the profile says, or one is missing"},
		{Status: Differs, Commands: []string{"status"}, When: "an alarm: the GPUs or their clients are not as they should be"},
		{Status: Differs, Commands: []string{"selftest"}, When: "something is wrong"},
		{Status: Unseen, Commands: []string{"status"}, When: "the state cannot be seen from here"},
		{Status: Overtaken, Commands: following, When: "another profile was selected before the daemon was at rest", Daemon: true},
		{Status: Usage, When: "a wrong command line"},
		{Status: Permanent, Commands: []string{"run"}, When: "the reservations or limits make the request impossible, or no partition is of that vendor or mode", Daemon: true},
		{Status: Permanent, Commands: []string{"oneshot"}, When: "the GPUs cannot have this profile, and trying again does not help"},
		{Status: Permanent, Commands: []string{"daemon"}, When: "the same, at a start that systemd has not made by itself", Daemon: true},
		{Status: Transient, Commands: []string{"run"}, When: "not enough is free, earlier requests wait, or the GPUs are being partitioned", Daemon: true},
		{Status: Transient, Commands: following, When: "the profile cannot be put on the GPUs now; the daemon tries again by itself", Daemon: true},
		{Status: Transient, Commands: []string{"run", "release", "queue", "apply", "use"}, When: "dcm.service is starting and did not answer within 10 seconds, or too many of your calls are under way", Daemon: true},
		{Status: Transient, Commands: []string{"selftest"}, When: "nothing was changed, because the GPUs are in use", Daemon: true},
		{Status: Transient, Commands: []string{"oneshot"}, When: "not now: a GPU is busy or in reset, or another run is under way"},
		{Status: Transient, Commands: []string{"daemon"}, When: "the same, at a start that systemd has not made by itself", Daemon: true},
		{Status: Config, When: "the configuration is broken"},
		{Status: NotExecutable, Commands: []string{"run"}, When: "the command cannot be executed"},
		{Status: NotFound, Commands: []string{"run"}, When: "there is no such command, or no such interpreter"},
		{Status: interrupted.Status(), Commands: []string{"run", "apply"}, When: "interrupted (SIGINT) before the work was done; dcm dies of that signal", Daemon: true},
		{Status: terminated.Status(), Commands: []string{"run", "apply"}, When: "terminated (SIGTERM) before the work was done; dcm dies of that signal", Daemon: true},
	}
}
