package bus

import (
	"time"

	"github.com/godbus/dbus/v5"
)

// Manager is what the daemon's object shows.
type Manager struct {
	Version  string
	Selected string // the selected profile; "" if none is
	Applied  string // the profile that is on the GPUs; "" if it is not known to be one
	Source   string // what selected it
	State    string // what the daemon is at
	Error    string // why it is not where it should be
	Cure     string // what an operator can do about it
	Since    time.Time
	Retry    time.Time // when it tries again; zero if it does not
	Profiles []string
	Clients  []ClientUnit
	Report   string   // of the last run, in JSON
	Problems []string // of the configuration on disk, which is then not in force
	Warnings []string
}

// ClientUnit is a client unit over the last restart.
type ClientUnit struct {
	Unit, Before, Now, Result string
	Back                      bool
}

// GPU is what the object of one GPU shows.
type GPU struct {
	Address, Model, Name, Serial, UniqueID string

	Index           int32 // among those that dcm manages; -1 for the others
	Unmanaged       string
	Compute, Memory string
	WantedCompute   string // "" where the profile says nothing of this GPU
	WantedMemory    string
	Partitions      uint32

	AvailableCompute, AvailableMemory []string

	RenderNodes []string
	NUMANode    int32
	Driver      string
}

// property is one of an interface's properties, by its name.
type property struct {
	name  string
	value any
	emits string // the annotation EmitsChangedSignal; "" for true
}

const (
	constant    = "const"
	invalidates = "invalidates" // told to have changed, and left to be asked for
)

func (m Manager) properties(gpus []dbus.ObjectPath) []property {
	return []property{
		{"Version", m.Version, constant},
		{"State", m.State, ""},
		{"Since", microseconds(m.Since), ""},
		{"SelectedProfile", m.Selected, ""},
		{"AppliedProfile", m.Applied, ""},
		{"ProfileSource", m.Source, ""},
		{"Profiles", list(m.Profiles), ""},
		{"Error", m.Error, ""},
		{"Cure", m.Cure, ""},
		{"NextTry", microseconds(m.Retry), ""},
		{"ConfigProblems", list(m.Problems), ""},
		{"Warnings", list(m.Warnings), ""},
		{"Clients", list(m.Clients), ""},
		{"GPUs", list(gpus), ""},
		{"LastReport", m.Report, invalidates},
	}
}

func (g GPU) properties() []property {
	return []property{
		{"Address", g.Address, constant},
		{"Index", g.Index, ""},
		{"Model", g.Model, ""},
		{"Name", g.Name, ""},
		{"Serial", g.Serial, ""},
		{"UniqueID", g.UniqueID, ""},
		{"ComputeMode", g.Compute, ""},
		{"MemoryMode", g.Memory, ""},
		{"WantedComputeMode", g.WantedCompute, ""},
		{"WantedMemoryMode", g.WantedMemory, ""},
		{"Partitions", g.Partitions, ""},
		{"AvailableComputeModes", list(g.AvailableCompute), ""},
		{"AvailableMemoryModes", list(g.AvailableMemory), ""},
		{"RenderNodes", list(g.RenderNodes), ""},
		{"NUMANode", g.NUMANode, ""},
		{"Driver", g.Driver, ""},
		{"Unmanaged", g.Unmanaged, ""},
	}
}

// list makes one empty list of the two that there are, so that they compare equal.
func list[T any](items []T) []T { return append([]T{}, items...) }

// microseconds is the form of systemd's timestamps: since 1970, 0 for none.
func microseconds(t time.Time) uint64 {
	if t.IsZero() {
		return 0
	}
	return uint64(t.UnixMicro())
}
