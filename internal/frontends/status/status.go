package status

import (
	"fmt"
	"reflect"
	"strings"
	"time"

	"dcm/internal/engine/runstate"
	"dcm/internal/gpu/partition"
)

// Version is the version of the JSON form.
const Version = 1

// Account is the status of a host at one moment.
type Account struct {
	Version    int               `json:"version"`
	Taken      time.Time         `json:"taken"`
	Host       Host              `json:"host"`
	DCM        string            `json:"dcm"` // its version
	Profile    Profile           `json:"profile"`
	Health     Health            `json:"health"`
	Daemon     Daemon            `json:"daemon"`
	GPUs       List[GPU]         `json:"gpus"`
	Expected   Expected          `json:"expected"`
	Parts      List[Part]        `json:"partitions"`
	Reserved   List[Reserved]    `json:"reservations"`
	Guard      Guard             `json:"guard"`
	Unconfined List[Unconfined]  `json:"unconfined"`
	Clients    List[Client]      `json:"clients"`
	Holders    List[Holder]      `json:"holders"`
	Leases     List[Lease]       `json:"leases"`
	Queue      List[Queued]      `json:"queue"`
	Units      List[Unit]        `json:"units"`
	LastRun    *runstate.Run     `json:"last_run,omitempty"`
	Restart    runstate.Restart  `json:"last_restart,omitzero"`
	Problems   List[Problem]     `json:"problems"`
	Warnings   List[string]      `json:"warnings"`
	Hidden     List[Unavailable] `json:"hidden"`
}

// Host identifies the machine.
type Host struct {
	Name   string `json:"name"`
	Kernel string `json:"kernel"`
	Boot   string `json:"boot"` // the kernel's boot id
}

// Profile is the selected, the effective and the applied profile.
type Profile struct {
	Selected    string       `json:"selected"`              // in the configuration on disk; "" for none, or if the configuration has errors
	Effective   string       `json:"in_force"`              // the effective profile: the last good selection
	Applied     string       `json:"applied"`               // the effective profile if the GPUs match it, else ""
	Source      string       `json:"source"`                // place of the effective selection
	UntilReboot bool         `json:"until_reboot"`          // the selection ends with the boot
	Persistent  string       `json:"lasting"`               // the persistent selection
	Unconfirmed *Unconfirmed `json:"unconfirmed,omitempty"` // the selection ends unless it is confirmed
	Defined     List[string] `json:"defined"`               // the profiles that can be selected
	Broken      string       `json:"broken"`                // errors of the configuration on disk, one in each line
}

// Unconfirmed is what happens to a selection that has to be confirmed.
type Unconfirmed struct {
	Deadline  time.Time `json:"deadline"`
	Former    string    `json:"former"`    // is selected again at the deadline; "" for none
	Permanent bool      `json:"permanent"` // a confirmation selects the profile permanently; otherwise until reboot
}

// Daemon is the state of dcm.service, as the daemon saved it.
type Daemon struct {
	Phase   runstate.Phase     `json:"phase"` // "" if there is no state of this boot
	Since   time.Time          `json:"since,omitzero"`
	Retry   time.Time          `json:"retry,omitzero"` // time of the next retry
	Pending List[PendingStart] `json:"pending_starts"` // in the order of their units
	Config  string             `json:"config"`         // why the configuration on disk is not effective
	Error   *Problem           `json:"error,omitempty"`

	Progress *runstate.Progress `json:"progress,omitempty"` // of a change that is made in rounds
}

// PendingStart is a unit that the daemon has to start.
type PendingStart struct {
	Unit     string                 `json:"unit"`
	Since    time.Time              `json:"since,omitzero"` // the stop by a run
	Reason   runstate.PendingReason `json:"reason"`
	WaitsFor string                 `json:"waits_for"`     // unit that systemd starts or stops before; "" for none
	Next     time.Time              `json:"next,omitzero"` // time of the next try; zero if it follows the end of a run, a change of WaitsFor, or an edit
}

// Why describes the reason.
func (p PendingStart) Why() string {
	switch {
	case p.Reason == runstate.DependencyFailed:
		return "a unit that it requires failed at its first start"
	case p.Reason == runstate.LeftDown:
		return "a failed run left it down"
	}
	return "a run stopped it"
}

// GPU is one display or accelerator device.
type GPU struct {
	Index   int    `json:"index"` // among the managed GPUs; -1 for others
	Address string `json:"address"`
	Vendor  string `json:"vendor"` // "amd", "nvidia"; "" for any other
	Model   string `json:"model"`
	Why     string `json:"why"` // reason why the GPU is not managed; "" if it is

	Mode       Shape        `json:"mode"`
	Want       Shape        `json:"want"`           // shape in the effective profile; empty for none
	Skipped    bool         `json:"skipped"`        // the profile does not change it
	Rest       string       `json:"rest,omitempty"` // compute mode without leases, if leases have set the present one
	Left       bool         `json:"left"`           // dcm leaves it as it is until the holders have ended
	Pending    string       `json:"pending"`        // a requested memory mode that takes effect with the next load of the driver
	Offers     Offers       `json:"offers"`
	Slots      *Placements  `json:"slots,omitempty"` // of a GPU with MIG
	Free       *FreeSlots   `json:"free,omitempty"`  // of a dynamic GPU
	ReadOnly   bool         `json:"read_only"`
	Guest      bool         `json:"guest"` // a virtual function: the modes are the guest's, and the host withholds its own
	Partitions int          `json:"partitions"`
	HeldMemory uint64       `json:"held_memory_bytes,omitempty"` // memory in use that no process has held for ten seconds
	Nodes      List[string] `json:"render_nodes"`

	Name          string            `json:"name"`
	Serial        string            `json:"serial"`
	UUID          string            `json:"uuid"`
	UniqueID      string            `json:"unique_id"`
	Hive          string            `json:"hive"` // XGMI hive; "" for none
	NUMA          int               `json:"numa"` // -1 if unknown
	Driver        string            `json:"driver"`
	DriverVersion string            `json:"driver_version"`
	Card          string            `json:"card"`
	Source        map[string]string `json:"source,omitempty"`
}

// Managed reports whether dcm sets the GPU's modes.
func (g GPU) Managed() bool { return g.Why == "" }

// AsWanted reports whether the GPU matches the effective profile.
func (g GPU) AsWanted() bool { return !g.Managed() || g.Want.empty() || g.Mode.Equal(g.Want) }

// Change returns the state of the effective profile on the GPU: "applied", "selected" if it is not
// applied, or "left" if holders prevent that.
func (g GPU) Change() string {
	switch {
	case g.AsWanted():
		return "applied"
	case g.Left:
		return "left"
	}
	return "selected"
}

// FreeSlots are the memory slots of a dynamic GPU that a further MIG instance can have. Leases and services create
// instances in them.
type FreeSlots struct {
	Slots   int `json:"slots"`       // number of free slots
	Longest int `json:"longest_run"` // length of the longest run of free slots
}

// Offers are the modes that a GPU supports.
type Offers struct {
	Compute List[string] `json:"compute"`
	Memory  List[string] `json:"memory"`
}

// Placements describes the MIG instances of a GPU and what can be changed: the input of a plan. An
// unprivileged process may be unable to read it, so it gets it from the daemon.
type Placements struct {
	Laid       string                          `json:"laid"`        // the instances with their first memory slots, "3g.40gb@0 1g.10gb@4"; "off" if MIG is off, "empty" if there are none
	Pending    bool                            `json:"pending"`     // the next reset of the GPU switches MIG on or off
	Resets     bool                            `json:"resets"`      // a change of the MIG mode resets the GPU
	Barred     string                          `json:"barred"`      // why the instances cannot be changed; "" if they can
	ModeBarred string                          `json:"mode_barred"` // why the MIG mode cannot be changed; "" if it can
	Kinds      List[partition.InstanceProfile] `json:"kinds"`       // none if the driver reports none
	Closed     List[string]                    `json:"closed"`      // the device nodes that must not be open during a change
}

// Part is one partition of a GPU.
type Part struct {
	Name         string  `json:"name"` // "0000:05:00.0-3"
	GPU          string  `json:"gpu"`
	Index        int     `json:"index"` // within the GPU
	Mode         string  `json:"mode"`  // mode of the GPU, "CPX/NPS4", or MIG profile of the partition
	RenderNode   string  `json:"render_node"`
	RenderMinor  int     `json:"render_minor"`
	Card         string  `json:"card"`
	DriverID     string  `json:"driver_id"` // identifier in the driver's interfaces; it changes with the mode
	UUID         string  `json:"uuid"`      // identifier in HIP or CUDA; "" if unknown
	NUMA         int     `json:"numa"`
	Domain       int     `json:"memory_domain"` // index of the nearest memory domain of the GPU
	Memory       uint64  `json:"memory_bytes"`  // 0 if unknown
	MemoryShare  float64 `json:"memory_share"`  // of the GPU's memory
	ComputeUnits int     `json:"compute_units"` // 0 if unknown
	ComputeShare float64 `json:"compute_share"` // of the GPU's compute units

	Holders List[string] `json:"holders"` // units, leases, "reservation NAME", "python[4711]"; none if they were not read

	Since map[string]time.Time `json:"holders_since,omitempty"` // the start of each service among the holders, by its name
}

// Same reports whether two partitions are the same. Their holders do not matter.
func (p Part) Same(o Part) bool {
	p.Holders, o.Holders, p.Since, o.Since = nil, nil, nil, nil
	return reflect.DeepEqual(p, o)
}

// Reserved is a reservation with its partitions.
type Reserved struct {
	Name       string       `json:"name"`
	Unit       string       `json:"unit"` // "" for a reservation without a unit
	Wants      int          `json:"wants"`
	Partitions List[string] `json:"partitions"`
	Exclusive  bool         `json:"exclusive"`
	Share      int          `json:"share"`  // number of instances that share the partitions; 0 if they are not shared
	Make       string       `json:"make"`   // MIG profile of the instance that the start of the unit creates; "" if the partitions are chosen
	Reason     string       `json:"reason"` // reason for this choice, or for none
}

// Guard is the state of exclusive reservations.
type Guard struct {
	Loaded  bool   `json:"loaded"`
	Devices int    `json:"devices"` // number of devices that only their holders can open
	Why     string `json:"why"`     // reason why the guard is not in effect; "" if it is

	// Unconfined is set if the device lists of units have no effect on this host.
	Unconfined bool `json:"unconfined"`

	// Open names processes of other users of an exclusive partition:
	// "grab[1507] has 0000:05:00.0-1 open". They opened it before it was exclusive.
	Open List[string] `json:"open"`

	Uncapped string `json:"uncapped"` // reason why sharers have no memory limit; "" if they have one
}

// Client is a unit that is restarted around a change.
type Client struct {
	Unit     string `json:"unit"`
	Load     string `json:"load"` // systemd's LoadState: "loaded", "not-found", "masked"
	Active   string `json:"active"`
	Sub      string `json:"sub"`
	Result   string `json:"result"`
	Restarts uint32 `json:"restarts"`
	Ran      bool   `json:"ran"`    // it was active in this boot
	Before   string `json:"before"` // state before the last restart; "" without a restart
	Back     bool   `json:"back"`   // after the last restart it has its former state again, or is active
	Ended    bool   `json:"ended"`  // it was active after the last restart, and ended later

	Invocation string `json:"invocation"` // systemd's InvocationID of the last run; "" if not read, as for an active unit

	// GPU is whether it has opened a GPU again after its restart; "" if it has, or had none open before.
	GPU  runstate.GPUUse `json:"gpu,omitempty"`
	GPUs List[string]    `json:"gpus_before,omitempty"` // that it had open before, if GPU is set
}

// Holder is a process that has a GPU open.
type Holder struct {
	PID     int          `json:"pid"`
	Command string       `json:"command"`
	Unit    string       `json:"unit"`
	Devices List[string] `json:"devices"`
	InWay   bool         `json:"in_the_way"`       // this process blocked the last run
	Lessee  string       `json:"lessee,omitempty"` // the user whose lease the process runs in, even if it has no device open yet

	Attached List[string] `json:"attached,omitempty"` // GPUs that it uses through /dev/kfd; absent if they are unknown
	Leased   List[string] `json:"leased,omitempty"`   // nodes of its lease; absent if they are unknown
}

// Unit is one of dcm's own units.
type Unit struct {
	Unit    string `json:"unit"`
	Load    string `json:"load"`
	Active  string `json:"active"`
	Sub     string `json:"sub"`
	Result  string `json:"result"`
	Ran     bool   `json:"ran"`     // it was active in this boot
	Enabled string `json:"enabled"` // systemd's UnitFileState; "" if unknown
}

// Problem is one problem with its hint.
type Problem struct {
	State State  `json:"state"`
	Text  string `json:"text"`
	Hint  string `json:"hint"`
}

// Unavailable is a part that could not be read.
type Unavailable struct {
	Part string `json:"part"` // its key in the JSON form, such as "holders"
	Why  string `json:"why"`
}

// Health is the result of [Evaluate].
type Health struct {
	State   State  `json:"state"`
	Code    int    `json:"code"`    // see [State.Code]
	InSync  bool   `json:"in_sync"` // all expected GPUs match the effective profile, or none is selected
	Summary string `json:"summary"` // a sentence
}

// Unconfined is a unit that can open GPUs outside of its partitions, or that systemd does not
// confine to them.
type Unconfined struct {
	Unit string       `json:"unit"`
	Why  List[string] `json:"why"` // each difference
	Hint string       `json:"hint"`
}

// Text names the unit and the difference.
func (u Unconfined) Text() string {
	return fmt.Sprintf("%s is not confined to its partitions: %s", u.Unit, strings.Join(u.Why, "; "))
}
