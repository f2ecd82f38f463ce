package runstate

import (
	"slices"

	"dcm/internal/engine/statefile"
)

// GuardFile is in the runtime directory, written by dcm-guard.
const GuardFile = "guard.json"

// Guard is the state of the guard of exclusive partitions, as dcm-guard has read it back
// from the kernel.
type Guard struct {
	Version int    `json:"version"`
	Loaded  bool   `json:"loaded"`
	Devices int    `json:"devices"` // that open for their holders alone
	Why     string `json:"why"`     // the guard is not possible here; "" if it is
	// Unconfined is set if, in addition, the device lists of units have no effect: systemd can
	// load no device programs either.
	Unconfined bool `json:"unconfined"`
	// Changing is set while dcm-guard changes the kernel's table. If it stays so, dcm-guard
	// was killed, and the kernel may have some of what the table says and some of what it
	// had before.
	Changing bool `json:"changing"`
	// Uncapped is why a process that shares may take more of the memory than its share; ""
	// if none may.
	Uncapped string `json:"uncapped"`

	GuardTable
}

// GuardTable is what opens below which cgroups only.
type GuardTable struct {
	Table []Guarded `json:"table"`
	All   []Cgroup  `json:"all"` // below these cgroups every device opens
}

// Guarded is a device node that opens for one holder only.
type Guarded struct {
	Node      string   `json:"node"`      // "/dev/dri/renderD129"
	Device    string   `json:"device"`    // "226:129"
	Partition string   `json:"partition"` // "0000:05:00.0-1"
	Holder    string   `json:"holder"`    // a reservation's name, or a lease's unit
	Cgroups   []Cgroup `json:"cgroups"`   // of the holder; none: it opens for no holder now
}

// Cgroup is a cgroup by its path from the root of the tree, and the kernel's number of it.
type Cgroup struct {
	Path   string `json:"path"` // "/dcm.slice/dcm-vllm.slice"
	Number uint64 `json:"number"`
}

// Holds reports whether the devices of that holder are in the table and open for it.
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

// Holders are those with a device in the table, each once.
func (t GuardTable) Holders() []string {
	var out []string
	for _, g := range t.Table {
		if !slices.Contains(out, g.Holder) {
			out = append(out, g.Holder)
		}
	}
	return out
}

// Only is the part of the table that is about some holders.
func (t GuardTable) Only(holder func(string) bool) GuardTable {
	out := GuardTable{All: t.All}
	for _, g := range t.Table {
		if holder(g.Holder) {
			out.Table = append(out.Table, g)
		}
	}
	return out
}

// GuardIn is the file in the runtime directory.
func GuardIn(dir string) statefile.File[Guard] {
	return file(dir, GuardFile, func(g *Guard) *int { return &g.Version })
}

// ReadGuard returns what dcm-guard wrote last, nil if it has not run since the boot.
func ReadGuard(dir string) (*Guard, error) { return GuardIn(dir).Read() }
