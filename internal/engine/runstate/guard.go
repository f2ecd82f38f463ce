package runstate

import (
	"slices"

	"dcm/internal/linux/statefile"
)

// GuardFile is in the runtime directory, written by dcm-guard.
const GuardFile = "guard.json"

// Guard is the state of the guard of exclusive partitions, as dcm-guard has read it back
// from the kernel.
type Guard struct {
	Version int    `json:"version"`
	Loaded  bool   `json:"loaded"`
	Devices int    `json:"devices"` // number of device nodes that only their holders can open
	Why     string `json:"why"`     // why the guard is not possible on this host; "" if it is
	// Unconfined is set if, in addition, the device lists of units have no effect: systemd can
	// load no device programs either.
	Unconfined bool `json:"unconfined"`
	// Changing is set while dcm-guard changes the kernel's table. If it stays so, dcm-guard
	// failed or was killed, and the kernel may have some of what the table says and some of what it
	// had before.
	Changing bool `json:"changing"`
	// Failure is why the change failed; "" if dcm-guard was killed, or is at work.
	Failure string `json:"failure"`
	// Uncapped is why a process that shares a partition may take more memory than its share; ""
	// if none may.
	Uncapped string `json:"uncapped"`

	GuardTable
}

// GuardTable has the device nodes that open only for processes below certain cgroups.
type GuardTable struct {
	Table []Guarded `json:"table"`
	All   []Cgroup  `json:"all"` // processes below these cgroups can open every device
}

// Guarded is a device node that only one holder can open.
type Guarded struct {
	Node      string   `json:"node"`      // "/dev/dri/renderD129"
	Device    string   `json:"device"`    // "226:129"
	Partition string   `json:"partition"` // "0000:05:00.0-1"
	Holder    string   `json:"holder"`    // a reservation's name, or a lease's unit
	Cgroups   []Cgroup `json:"cgroups"`   // of the holder; none: no process can open it now
}

// Cgroup is a cgroup.
type Cgroup struct {
	Path   string `json:"path"`   // "/dcm.slice/dcm-vllm.slice"
	Number uint64 `json:"number"` // the kernel's id, the inode number of its directory
}

// Holds reports whether the table has devices of the holder, and all of them open for it.
func (t GuardTable) Holds(holder string) bool {
	found := false
	for _, g := range t.Table {
		if g.Holder == holder {
			if len(g.Cgroups) == 0 {
				return false
			}
			found = true
		}
	}
	return found
}

// Holders returns the holders with a device in the table, each once.
func (t GuardTable) Holders() []string {
	var out []string
	for _, g := range t.Table {
		if !slices.Contains(out, g.Holder) {
			out = append(out, g.Holder)
		}
	}
	return out
}

// Only returns the part of the table for the holders for which holder returns true.
func (t GuardTable) Only(holder func(string) bool) GuardTable {
	out := GuardTable{All: t.All}
	for _, g := range t.Table {
		if holder(g.Holder) {
			out.Table = append(out.Table, g)
		}
	}
	return out
}

// GuardIn returns GuardFile in the runtime directory.
func GuardIn(dir string) statefile.File[Guard] {
	return file(dir, GuardFile, func(g *Guard) *int { return &g.Version })
}

// ReadGuard returns the last state that dcm-guard wrote, nil if it has not run in this boot.
func ReadGuard(dir string) (*Guard, error) { return GuardIn(dir).Valid() }
