// Package runstate holds what dcm tells about itself: the report of the last run
// of dcm-apply.service and the state of the daemon. Each is one JSON file with
// one writer, replaced atomically, readable by everyone.
//
// A report records what was seen, not what was intended: every mode in it was
// read back. The package knows no device, no unit and no configuration.
package runstate

import (
	"path/filepath"
	"time"

	"dcm/internal/engine/event"
	"dcm/internal/engine/statefile"
	"dcm/internal/gpu/partition"
)

// Version is the version of both files' form. A reader refuses another one.
const Version = 1

// The files' names in the runtime directory, /run/dcm.
const (
	RunFile   = "report.json" // written by the oneshot
	StateFile = "state.json"  // written by the daemon
)

// Result is how a run ended.
type Result string

// The results of a run.
const (
	Running     Result = "running"     // under way, or killed before it could say more
	Unchanged   Result = "unchanged"   // the GPUs were as selected; nothing was written
	Applied     Result = "applied"     // changed, and read back as selected
	NoProfile   Result = "no-profile"  // none is selected: the GPUs were left alone
	Refused     Result = "refused"     // nothing was touched: a process holds a GPU, or the profile does not fit
	RolledBack  Result = "rolled-back" // failed; the GPUs are as they were before
	Failed      Result = "failed"      // failed; some GPUs may be changed, see each one
	Interrupted Result = "interrupted" // told to stop; the step under way was finished
)

// OK reports whether the GPUs are as selected after such a run.
func (r Result) OK() bool { return r == Unchanged || r == Applied || r == NoProfile }

// Run is the report of one run of the oneshot.
type Run struct {
	Version  int       `json:"version"`
	ID       string    `json:"id"`   // systemd's invocation id
	Boot     string    `json:"boot"` // the kernel's boot id
	PID      int       `json:"pid"`
	Profile  string    `json:"profile"`
	Source   string    `json:"source,omitempty"` // what selected it: a file and line, or the kernel command line
	Asked    Asked     `json:"asked,omitzero"`   // what asked for it
	Config   string    `json:"config,omitempty"` // why the configuration on disk is not the one it went by; one problem a line
	Result   Result    `json:"result"`
	Started  time.Time `json:"started"`
	Finished time.Time `json:"finished,omitzero"`
	Error    *Error    `json:"error,omitempty"`
	GPUs     []GPU     `json:"gpus,omitempty"`
	Steps    []Step    `json:"steps,omitempty"`
	Holders  []Holder  `json:"holders,omitempty"` // who prevented the run
	// Idle is what a vendor's driver counts when nobody uses it, beside modules, as seen
	// after a load; by the vendor's name.
	Idle map[string]int `json:"idle_counts,omitempty"`
	// Pending are the memory modes that were requested before, see [PendingSince].
	Pending map[partition.Address]partition.Memory `json:"pending,omitempty"`
	Totals  Totals                                 `json:"totals,omitzero"` // of this boot's runs, this one included once it has ended

	Warnings []string `json:"warnings,omitempty"` // what it did not fail for

	Unloaded bool `json:"unloaded,omitempty"` // an earlier run has left the driver unloaded, and this one has not loaded it
}

// Error is why a run failed.
type Error struct {
	Text      string `json:"text"`
	Hint      string `json:"hint,omitempty"`      // what an operator can do about it
	Transient bool   `json:"transient,omitempty"` // trying again may help
	Reboot    bool   `json:"reboot,omitempty"`    // a reboot may, and nothing less
	Unseen    *Use   `json:"unseen,omitempty"`    // the GPUs are in use, and nobody who can be seen uses them
}

// GPU is one GPU in a run.
type GPU struct {
	Address partition.Address `json:"address"`
	Model   string            `json:"model,omitempty"`
	Before  partition.Shape   `json:"before"`
	Want    partition.Shape   `json:"want"`
	Now     partition.Shape   `json:"now"` // as last read back
	Skipped bool              `json:"skipped,omitempty"`
	Error   string            `json:"error,omitempty"`
}

// FailureEvent returns the journal event of a run that has failed.
func (r Run) FailureEvent() event.ID {
	switch {
	case len(r.Holders) > 0:
		return event.InUse
	case r.Result == Refused:
		return event.Refused
	case r.Result == RolledBack:
		return event.RolledBack
	}
	return event.RunFailed
}

// Touched lists the GPUs that the run is about: all but those that the profile
// leaves alone.
func (r Run) Touched() []string {
	var all []string
	for _, g := range r.GPUs {
		if !g.Skipped {
			all = append(all, string(g.Address))
		}
	}
	return all
}

// Step is one step of a run. A step without Started has not begun.
type Step struct {
	partition.Step
	Undo     bool      `json:"undo,omitempty"`      // part of the rollback
	UnderWay bool      `json:"under_way,omitempty"` // given up, but the driver still has it
	Started  time.Time `json:"started,omitzero"`
	Finished time.Time `json:"finished,omitzero"`
	Error    string    `json:"error,omitempty"`
}

// Phase is what the daemon is at.
type Phase string

// The phases of the daemon.
const (
	Starting  Phase = "starting"  // no verdict yet
	Idle      Phase = "idle"      // no profile is selected
	InSync    Phase = "in-sync"   // the selected profile is on the GPUs
	Applying  Phase = "applying"  // a run is under way
	Drifted   Phase = "drifted"   // somebody changed the GPUs, and they are left so
	Rebooting Phase = "rebooting" // failed; the host is being rebooted for it
	Waiting   Phase = "waiting"   // failed; tries again at Retry
	Stuck     Phase = "failed"    // failed; only another configuration or an administrator helps
)

// State is what the daemon knows.
type State struct {
	Version  int       `json:"version"`
	Program  string    `json:"program"` // dcm's own version
	PID      int       `json:"pid"`
	Boot     string    `json:"boot"`
	Phase    Phase     `json:"phase"`
	Since    time.Time `json:"since"`
	Profile  string    `json:"profile"`
	Source   string    `json:"source,omitempty"`
	Error    *Error    `json:"error,omitempty"`
	Config   string    `json:"config,omitempty"` // why the configuration on disk is not the one in force; one problem a line
	Warnings []string  `json:"warnings,omitempty"`
	Retry    time.Time `json:"retry,omitzero"`
	Clients  []Client  `json:"clients,omitempty"`
	Holders  []Holder  `json:"holders,omitempty"`
	Owed     []string  `json:"owed,omitempty"`   // units that a failed run keeps down: to be started once the profile is on the GPUs
	Restart  Restart   `json:"restart,omitzero"` // the last one that the daemon asked for
	Tries    int       `json:"tries,omitempty"`  // the restarts asked for since the profile was last on the GPUs
	Tried    time.Time `json:"tried,omitzero"`   // when the last of them was
	Wish     string    `json:"wish,omitempty"`   // a sum of the settings that it was for
	Asked    *Asked    `json:"asked,omitempty"`  // what asked for it
	Unseen   *Use      `json:"unseen,omitempty"` // no other one is asked for until this has become less

	OwedRuns map[string]string `json:"owed-runs,omitempty"` // the invocation that each unit owed was in
}

// Restart is one restart transaction, as the daemon saw it from outside: before
// the run lies the stop of the clients, behind it their start.
type Restart struct {
	Run     string    `json:"run"` // the run's id
	Asked   time.Time `json:"asked"`
	Settled time.Time `json:"settled"` // the clients had come to rest
}

// Client is a client unit over the last restart.
type Client struct {
	Unit     string `json:"unit"`
	Before   string `json:"before"` // systemd's ActiveState, "not-found" if it is not installed
	Now      string `json:"now"`
	Sub      string `json:"sub,omitempty"`
	Result   string `json:"result,omitempty"` // systemd's Result, when the unit failed
	Restarts uint32 `json:"restarts,omitempty"`
	Back     bool   `json:"back"` // is as it was before: active again, a job (Type=oneshot) that ended with success since, or not active still

	Invocation string `json:"invocation,omitempty"` // of its run at that time
}

// RunIn is the last run's report in the runtime directory.
func RunIn(dir string) statefile.File[Run] {
	return file(dir, RunFile, func(r *Run) *int { return &r.Version })
}

// StateIn is the daemon's state in the runtime directory.
func StateIn(dir string) statefile.File[State] {
	return file(dir, StateFile, func(s *State) *int { return &s.Version })
}

func file[T any](dir, name string, version func(*T) *int) statefile.File[T] {
	return statefile.File[T]{Path: filepath.Join(dir, name), Version: Version, Field: version}
}

// ReadRun returns the last run's report from the runtime directory, nil if
// there was none since the boot.
func ReadRun(dir string) (*Run, error) { return RunIn(dir).Read() }

// ReadState returns the daemon's state from the runtime directory, nil if it
// has not run since the boot.
func ReadState(dir string) (*State, error) { return StateIn(dir).Read() }
