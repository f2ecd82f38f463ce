// Package runstate holds the state that dcm publishes in files: the report of the last run of
// dcm-apply.service, the state of the daemon, and smaller ones. Each is one JSON file with one
// writer, replaced atomically, readable by everyone.
//
// A report records what was read back, not what was intended. The package must not import
// devices, units or the configuration.
package runstate

import (
	"fmt"
	"path/filepath"
	"slices"
	"time"

	"dcm/internal/engine/event"
	"dcm/internal/gpu/partition"
	"dcm/internal/linux/statefile"
)

// Version is the version of the files' format. A reader refuses any other version.
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
	Running     Result = "running"     // in progress, or killed before it wrote its result
	Unchanged   Result = "unchanged"   // the GPUs matched the profile; nothing was written
	Applied     Result = "applied"     // changed, and read back
	NoProfile   Result = "no-profile"  // no profile is selected, so the GPUs were not changed
	Refused     Result = "refused"     // nothing was changed: a process holds a GPU, or the profile does not fit
	RolledBack  Result = "rolled-back" // failed; all changes were undone
	Round       Result = "round"       // the GPUs of one round of a change match the profile; later runs change the others
	Partial     Result = "partial"     // failed on some GPUs, which were undone; the others match the profile
	Failed      Result = "failed"      // failed; some GPUs may be changed, see each one
	Interrupted Result = "interrupted" // stopped by a request after the current step
)

// OK reports whether the GPUs match the selection after such a run.
func (r Result) OK() bool { return r == Unchanged || r == Applied || r == NoProfile }

// Run is the report of one run of the oneshot.
type Run struct {
	Version  int       `json:"version"`
	ID       string    `json:"id"`   // systemd's invocation id
	Boot     string    `json:"boot"` // the kernel's boot id
	PID      int       `json:"pid"`
	Profile  string    `json:"profile"`
	Source   string    `json:"source,omitempty"` // what selected it: a file and line, or the kernel command line
	Asked    Asked     `json:"asked,omitzero"`   // the reason of the run, and who requested it
	Config   string    `json:"config,omitempty"` // why the run did not use the configuration on disk; one problem a line
	Result   Result    `json:"result"`
	Started  time.Time `json:"started"`
	Finished time.Time `json:"finished,omitzero"`
	Error    *Error    `json:"error,omitempty"`
	GPUs     []GPU     `json:"gpus,omitempty"`
	Steps    []Step    `json:"steps,omitempty"`
	Holders  []Holder  `json:"holders,omitempty"` // the processes that prevented the run
	// Idle is the use count of each vendor's idle driver, read after a load, without the use by
	// other modules. The key is the vendor's name.
	Idle map[string]int `json:"idle_counts,omitempty"`
	// Pending are the memory modes that earlier runs requested, see [PendingSince].
	Pending map[partition.Address]partition.Memory `json:"pending,omitempty"`
	// NoRoom are the GPUs whose driver had no room for a geometry, see [NoRoomSince].
	NoRoom map[partition.Address]partition.Shape `json:"no_room,omitempty"`
	Totals Totals                                `json:"totals,omitzero"` // of all runs of this boot that have ended

	Warnings []string `json:"warnings,omitempty"` // problems that did not fail the run

	Unloaded bool `json:"unloaded,omitempty"` // an earlier run has left the driver unloaded, and this one has not loaded it
	// UnloadedModules are further kernel modules that this run or an earlier one has unloaded, or is
	// about to unload, and has not loaded again.
	UnloadedModules []string `json:"unloaded_modules,omitempty"`
}

// Error is why a run failed.
type Error struct {
	Text      string `json:"text"`
	Hint      string `json:"hint,omitempty"`      // what the administrator can do
	Transient bool   `json:"transient,omitempty"` // a retry may succeed
	Reboot    bool   `json:"reboot,omitempty"`    // only a reboot may help
	Unseen    *Use   `json:"unseen,omitempty"`    // the driver is in use, but no holder is visible
	Unmet     bool   `json:"unmet,omitempty"`     // a reservation cannot be met

	Gone partition.Address `json:"gone,omitempty"` // the GPU that disappeared; "" for another failure
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

// Changed reports whether the GPU was divided otherwise before the run.
func (g GPU) Changed() bool { return g.Before.Key() != g.Now.Key() }

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

// Left returns the GPUs that the run left as they are because of the holders.
func (r Run) Left() []partition.Address {
	var out []partition.Address
	for _, g := range r.GPUs {
		begun := slices.ContainsFunc(r.Steps, func(s Step) bool { return s.GPU == g.Address && !s.Started.IsZero() })
		if len(r.Holders) > 0 && !g.Skipped && !begun && !g.Now.Same(g.Want) {
			out = append(out, g.Address)
		}
	}
	return out
}

// Touched lists the GPUs of the run, without those that the profile skips.
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
	UnderWay bool      `json:"under_way,omitempty"` // timed out, but the driver may still carry it out
	Started  time.Time `json:"started,omitzero"`
	Finished time.Time `json:"finished,omitzero"`
	Error    string    `json:"error,omitempty"`
}

// Phase is the phase of the daemon.
type Phase string

// The phases of the daemon.
const (
	Starting  Phase = "starting"  // no result yet
	Idle      Phase = "idle"      // no profile is selected
	InSync    Phase = "in-sync"   // the selected profile is on the GPUs
	Applying  Phase = "applying"  // a run is in progress
	Rolling   Phase = "rolling"   // between two rounds of a change; the next one is at Retry
	Drifted   Phase = "drifted"   // another program changed the GPUs, and dcm does not repair them
	Rebooting Phase = "rebooting" // failed; the host is being rebooted
	Waiting   Phase = "waiting"   // failed; the next attempt is at Retry
	Stuck     Phase = "failed"    // failed; the next attempt follows an edit or a request
)

// State is the state of the daemon.
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
	Config   string    `json:"config,omitempty"` // why the configuration on disk is not effective; one problem a line
	Warnings []string  `json:"warnings,omitempty"`
	Retry    time.Time `json:"retry,omitzero"`
	Clients  []Client  `json:"clients,omitempty"`
	Holders  []Holder  `json:"holders,omitempty"`
	Restart  Restart   `json:"restart,omitzero"` // the last one that the daemon requested
	Tries    int       `json:"tries,omitempty"`  // the restarts requested since the profile was last on the GPUs
	Tried    time.Time `json:"tried,omitzero"`   // the time of the last of them
	Wish     string    `json:"wish,omitempty"`   // the hash of its settings
	Change   *Change   `json:"change,omitempty"` // of single GPUs; nil: of the whole node
	// Users are those of MIG instances before the change. The run plans with them, since it cannot
	// find them when the units are stopped.
	Users    InstanceUsers `json:"users,omitempty"`
	Progress *Progress     `json:"progress,omitempty"` // of a change that is made in rounds
	Asked    *Asked        `json:"asked,omitempty"`    // its reason, and who requested it
	Unseen   *Use          `json:"unseen,omitempty"`   // no restart is requested until this use has fallen

	Selection *Selection     `json:"selection,omitempty"` // in effect; nil: the daemon has read none
	Announced []Announcement `json:"announced,omitempty"` // by commands

	Pending PendingStarts `json:"pending_starts,omitempty"`

	Left []partition.Address `json:"left,omitempty"` // GPUs that dcm leaves as they are until the holders have ended
}

// InstanceUsers are the users of MIG instances by GPU and first memory slot, see
// [partition.GPU.InstanceUsers].
type InstanceUsers map[partition.Address]map[int][]partition.InstanceUser

// Progress is how far a change is that is made in rounds.
type Progress struct {
	Done  int `json:"done"`  // GPUs that match the profile
	Total int `json:"total"` // GPUs of the profile
}

func (p Progress) String() string { return fmt.Sprintf("%d of %d GPUs", p.Done, p.Total) }

// Change is a change of single GPUs that the daemon requests from dcm-change.service.
type Change struct {
	GPUs    []partition.Address `json:"gpus"`              // the only ones that may change
	Later   []partition.Address `json:"later,omitempty"`   // those that later rounds change
	Stopped map[string]string   `json:"stopped,omitempty"` // the units that have to be stopped, with their invocations
	Kept    []string            `json:"kept,omitempty"`    // active clients that continue with their partitions
}

// Postpones reports whether a later round changes a GPU.
func (c Change) Postpones(gpu partition.Address) bool { return slices.Contains(c.Later, gpu) }

// Concerns reports whether a GPU may change.
func (c Change) Concerns(gpu partition.Address) bool { return slices.Contains(c.GPUs, gpu) }

// Restart is one restart transaction as the daemon observed it. It contains the stop of the
// clients before the run, and their start after it.
type Restart struct {
	Run     string    `json:"run"` // the run's id
	Asked   time.Time `json:"asked"`
	Settled time.Time `json:"settled"` // no client had a job any more
}

// Client is a client unit over the last restart.
type Client struct {
	Unit     string `json:"unit"`
	Before   string `json:"before"` // systemd's ActiveState, "not-found" if it is not installed
	Now      string `json:"now"`
	Sub      string `json:"sub,omitempty"`
	Result   string `json:"result,omitempty"` // systemd's Result, when the unit failed
	Restarts uint32 `json:"restarts,omitempty"`
	Back     bool   `json:"back"` // as before: active again, a Type=oneshot unit that has succeeded since, or inactive before too

	Invocation string `json:"invocation,omitempty"` // of its run at that time
}

// RunIn returns the file of the last run's report in the runtime directory.
func RunIn(dir string) statefile.File[Run] {
	return file(dir, RunFile, func(r *Run) *int { return &r.Version })
}

// StateIn returns the file of the daemon's state in the runtime directory.
func StateIn(dir string) statefile.File[State] {
	return file(dir, StateFile, func(s *State) *int { return &s.Version })
}

func file[T any](dir, name string, version func(*T) *int) statefile.File[T] {
	return statefile.File[T]{Path: filepath.Join(dir, name), Version: Version, Field: version}
}

// ReadRun returns the last run's report from the runtime directory, nil if there was no run in
// this boot.
func ReadRun(dir string) (*Run, error) { return RunIn(dir).Valid() }

// ReadState returns the daemon's state from the runtime directory, nil if the daemon has not run
// in this boot.
func ReadState(dir string) (*State, error) { return StateIn(dir).Valid() }
