package dbusapi

import (
	"encoding/json"
	"strings"
	"time"

	"github.com/godbus/dbus/v5"

	"dcm/internal/frontends/status"
)

// Manager contains the properties of the daemon's object, as a [Client] reads them.
type Manager struct {
	Version  string
	Selected string // the effective profile; "" for none
	Applied  string // the profile that is on the GPUs; "" for none or if unknown
	Source   string // where the profile was selected
	State    string // the daemon's phase
	Error    string // the worst problem
	Hint     string // the hint for that problem
	Since    time.Time
	Retry    time.Time // time of the next attempt; zero for none
	Profiles []string
	Report   string   // the report of the last run, in JSON
	Problems []string // errors of the configuration on disk, which is not effective then
	Warnings []string
}

// ClientUnit is the state of a client unit, now and before the last restart. Its type on the
// bus is (ssssb).
type ClientUnit struct {
	Unit, Before, Now, Result string
	Back                      bool
}

// property is a property of an interface.
type property struct {
	name  string
	value any
	emits string // the annotation EmitsChangedSignal; "" for true
}

const (
	emitsConst       = "const"
	emitsInvalidates = "invalidates" // PropertiesChanged is sent without the value
)

// objects returns the objects that represent an account.
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
	out[Path] = []iface{{name: Interface, methods: s.handler.methods(), properties: ofManager(a, gpus)}}
	return out
}

// AccountProperties returns the properties that represent an account on the bus. The keys are the
// path of the object below [Path], and the name of the property.
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
	report := ""
	if a.LastRun != nil {
		text, _ := json.Marshal(a.LastRun) // cannot fail: every field has a JSON form
		report = string(text)
	}
	wrong := worstProblem(a)
	return []property{
		{"Version", a.DCM, emitsConst},
		{"State", string(a.Daemon.Phase), ""},
		{"Since", microseconds(a.Daemon.Since), ""},
		{"Health", string(a.Health.State), ""},
		{"InSync", a.Health.InSync, ""},
		{"Summary", a.Health.Summary, ""},
		{"SelectedProfile", a.Profile.Effective, ""},
		{"AppliedProfile", a.Profile.Applied, ""},
		{"ProfileSource", a.Profile.Source, ""},
		{"Profiles", list(a.Profile.Defined), ""},
		{"Error", wrong.Text, ""},
		{"Hint", wrong.Hint, ""},
		{"NextTry", microseconds(a.Daemon.Retry), ""},
		{"Progress", progressOf(a.Daemon), ""},
		{"ConfigProblems", lines(a.Profile.Broken), ""},
		{"Warnings", list(a.Warnings), ""},
		{"Clients", clients, ""},
		{"GPUs", list(gpus), ""},
		{"LastReport", report, emitsInvalidates},
	}
}

// Progress is how far a change is that is made in rounds. Its type on the bus is (uu).
type Progress struct {
	Done, Total uint32 // GPUs that match the profile, and all of the profile; 0 without such a change
}

func progressOf(d status.Daemon) Progress {
	if d.Progress == nil {
		return Progress{}
	}
	return Progress{uint32(d.Progress.Done), uint32(d.Progress.Total)}
}

// worstProblem returns the critical problem that determines the health, or else the first
// critical one. Warnings are a property of their own.
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
		{"MemoryAllocation", g.Mode.Allocation, ""},
		{"WantedMemoryAllocation", g.Want.Allocation, ""},
		{"Isolation", g.Mode.Isolation, ""},
		{"WantedIsolation", g.Want.Isolation, ""},
		{"Left", g.Left, ""},
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
		{"UUID", p.UUID, ""},
		{"NUMANode", int32(p.NUMA), ""},
		{"MemoryDomain", uint32(p.Domain), ""},
		{"MemoryBytes", p.Memory, ""},
		{"MemoryShare", p.MemoryShare, ""},
		{"ComputeUnits", uint32(p.ComputeUnits), ""},
		{"ComputeShare", p.ComputeShare, ""},
	}
}

// list copies items and replaces nil by an empty list, so that both compare equal.
func list[T any](items []T) []T { return append([]T{}, items...) }

// microseconds returns the time in systemd's form: since 1970, 0 for none.
func microseconds(t time.Time) uint64 {
	if t.IsZero() {
		return 0
	}
	return uint64(t.UnixMicro())
}
