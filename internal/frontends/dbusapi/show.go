package dbusapi

import (
	"encoding/json"
	"strings"
	"time"

	"github.com/godbus/dbus/v5"

	"dcm/internal/frontends/status"
)

// Manager is what a [Client] is told of the daemon.
type Manager struct {
	Version  string
	Selected string // the profile in force; "" if none is
	Applied  string // the profile that is on the GPUs; "" if it is not known to be one
	Source   string // what selected it
	State    string // what the daemon is at
	Error    string // why it is not where it should be
	Cure     string // what an operator can do about it
	Since    time.Time
	Retry    time.Time // when it tries again; zero if it does not
	Profiles []string
	Report   string   // of the last run, in JSON
	Problems []string // of the configuration on disk, which is then not in force
	Warnings []string
}

// ClientUnit is a client unit as it is, and over the last restart. On the bus it is
// (ssssb).
type ClientUnit struct {
	Unit, Before, Now, Result string
	Back                      bool
}

// property is one of an interface's properties, by its name.
type property struct {
	name  string
	value any
	emits string // the annotation EmitsChangedSignal; "" for true
}

const (
	emitsConst       = "const"
	emitsInvalidates = "invalidates" // told to have changed, and left to be asked for
)

// objects are what an account is on the bus.
func (s *Service) objects(a status.Account) map[dbus.ObjectPath][]iface {
	out := make(map[dbus.ObjectPath][]iface, 1+len(a.GPUs)+len(a.Parts))
	gpus := make([]dbus.ObjectPath, len(a.GPUs))
	for i, g := range a.GPUs {
		gpus[i] = gpuPath(g.Address)
		out[gpus[i]] = []iface{{name: gpuInterface, properties: ofGPU(g)}}
	}
	for _, p := range a.Parts {
		out[partPath(p.GPU, p.Index)] = []iface{{name: partInterface, properties: ofPart(p)}}
	}
	out[Path] = []iface{{name: Interface, methods: s.methods(), properties: ofManager(a, gpus)}}
	return out
}

// AccountProperties is what the bus tells of an account: each object's properties, by the path
// below the manager's.
func AccountProperties(a status.Account) map[string]map[string]any {
	out := make(map[string]map[string]any)
	for path, interfaces := range new(Service).objects(a) {
		below := strings.TrimPrefix(string(path), string(Path))
		out[below] = make(map[string]any)
		for _, p := range interfaces[0].properties {
			out[below][p.name] = p.value
		}
	}
	return out
}

func ofManager(a status.Account, gpus []dbus.ObjectPath) []property {
	clients := make([]ClientUnit, len(a.Clients))
	for i, c := range a.Clients {
		now := c.Active
		if c.Load == "not-found" {
			now = c.Load
		}
		clients[i] = ClientUnit{c.Unit, c.Before, now, c.Result, c.Back}
	}
	last := ""
	if a.LastRun != nil {
		text, _ := json.Marshal(a.LastRun) // of its fields each can be written
		last = string(text)
	}
	wrong := worstProblem(a)
	return []property{
		{"Version", a.DCM, emitsConst},
		{"State", string(a.Daemon.Phase), ""},
		{"Since", microseconds(a.Daemon.Since), ""},
		{"Health", string(a.Health.State), ""},
		{"InSync", a.Health.InSync, ""},
		{"Summary", a.Health.Summary, ""},
		{"SelectedProfile", a.Profile.InForce, ""},
		{"AppliedProfile", a.Profile.Applied, ""},
		{"ProfileSource", a.Profile.Source, ""},
		{"Profiles", list(a.Profile.Defined), ""},
		{"Error", wrong.Text, ""},
		{"Cure", wrong.Cure, ""},
		{"NextTry", microseconds(a.Daemon.Retry), ""},
		{"ConfigProblems", lines(a.Profile.Broken), ""},
		{"Warnings", list(a.Warnings), ""},
		{"Clients", clients, ""},
		{"GPUs", list(gpus), ""},
		{"LastReport", last, emitsInvalidates},
	}
}

// worstProblem is the problem that the verdict is about. One that no alarm is raised for is
// told elsewhere.
func worstProblem(a status.Account) status.Problem {
	var out status.Problem
	for _, p := range a.Problems {
		if p.State == a.Health.State && p.State.Code() == status.CodeCritical {
			return p
		}
		if out.Text == "" && p.State.Code() == status.CodeCritical {
			out = p
		}
	}
	return out
}

func lines(text string) []string {
	if text == "" {
		return []string{}
	}
	return strings.Split(strings.TrimSpace(text), "\n")
}

func ofGPU(g status.GPU) []property {
	return []property{
		{"Address", g.Address, emitsConst},
		{"Index", int32(g.Index), ""},
		{"Vendor", g.Vendor, ""},
		{"Model", g.Model, ""},
		{"Name", g.Name, ""},
		{"Serial", g.Serial, ""},
		{"UniqueID", g.UniqueID, ""},
		{"ComputeMode", g.Mode.Compute, ""},
		{"MemoryMode", g.Mode.Memory, ""},
		{"WantedComputeMode", g.Want.Compute, ""},
		{"WantedMemoryMode", g.Want.Memory, ""},
		{"PendingMemoryMode", g.Pending, ""},
		{"Slices", list(g.Mode.Slices), ""},
		{"WantedSlices", list(g.Want.Slices), ""},
		{"Partitions", uint32(g.Partitions), ""},
		{"AvailableComputeModes", list(g.Offers.Compute), ""},
		{"AvailableMemoryModes", list(g.Offers.Memory), ""},
		{"RenderNodes", list(g.Nodes), ""},
		{"NUMANode", int32(g.NUMA), ""},
		{"Driver", g.Driver, ""},
		{"Unmanaged", g.Why, ""},
	}
}

func ofPart(p status.Part) []property {
	return []property{
		{"Name", p.Name, emitsConst},
		{"GPU", gpuPath(p.GPU), emitsConst},
		{"Index", uint32(p.Index), emitsConst},
		{"Mode", p.Mode, ""},
		{"RenderNode", p.RenderNode, ""},
		{"RenderMinor", uint32(p.RenderMinor), ""},
		{"Card", p.Card, ""},
		{"DriverID", p.DriverID, ""},
		{"NUMANode", int32(p.NUMA), ""},
		{"MemoryDomain", uint32(p.Domain), ""},
		{"MemoryBytes", p.Memory, ""},
		{"MemoryShare", p.MemoryShare, ""},
		{"ComputeUnits", uint32(p.ComputeUnits), ""},
		{"ComputeShare", p.ComputeShare, ""},
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
