package agent

import (
	"slices"
	"strings"
	"time"
)

// Account has the fields of dcm-account(5) version 1 that the agent uses.
type Account struct {
	Version int       `json:"version"`
	Taken   time.Time `json:"taken"`
	Profile struct {
		Effective string `json:"in_force"`
	} `json:"profile"`
	Health struct {
		State   string `json:"state"`
		Summary string `json:"summary"`
		InSync  bool   `json:"in_sync"`
	} `json:"health"`
	Problems []struct {
		Text string `json:"text"`
		Hint string `json:"hint"`
	} `json:"problems"`
	GPUs    []GPU `json:"gpus"`
	LastRun *struct {
		Result string `json:"result"`
	} `json:"last_run"`
}

// GPU is a GPU in an account.
type GPU struct {
	Index   int    `json:"index"`
	Address string `json:"address"` // in PCI
	UUID    string `json:"uuid"`    // "" if unknown
	Vendor  string `json:"vendor"`
	Driver  string `json:"driver"`
	Mode    struct {
		Compute string   `json:"compute"`
		Memory  string   `json:"memory"`
		Slices  []string `json:"slices,omitempty"` // MIG instances
		Whole   string   `json:"whole,omitempty"`  // why there are none
	} `json:"mode"`
	Partitions int `json:"partitions"`
}

// Running reports whether a run is in progress, or the host is going to reboot for one.
func (a Account) Running() bool {
	return a.Health.State == "changing" || a.Health.State == "rebooting" || a.LastRun != nil && a.LastRun.Result == "running"
}

// Partitions counts the partitions of AMD's managed GPUs by mode, with the names of the
// device plugin: "cpx_nps4".
func (a Account) Partitions() map[string]int {
	out := make(map[string]int)
	for _, g := range a.GPUs {
		if g.Vendor == "amd" && g.Index >= 0 {
			out[strings.ToLower(strings.Trim(g.Mode.Compute+"_"+g.Mode.Memory, "_"))] += g.Partitions
		}
	}
	return out
}

// Names returns the PCI addresses and UUIDs of some of a vendor's managed GPUs, given by address. It
// returns nil if these are all of its GPUs, or if one is unknown.
func (a Account) Names(vendor string, addresses []string) (names []string) {
	others := false
	for _, g := range a.GPUs {
		switch {
		case g.Vendor != vendor || g.Index < 0:
		case !slices.Contains(addresses, g.Address):
			others = true
		default:
			addresses = slices.DeleteFunc(slices.Clone(addresses), func(a string) bool { return a == g.Address })
			names = append(names, strings.ToLower(g.Address))
			if g.UUID != "" {
				names = append(names, strings.ToLower(g.UUID))
			}
		}
	}
	if !others || len(addresses) > 0 {
		return nil
	}
	return names
}

// Starting reports whether dcm.service is starting. Its account may lack GPUs.
func (a Account) Starting() bool { return a.Health.State == "starting" }

// Rebooting reports whether the host is going to reboot for a run.
func (a Account) Rebooting() bool { return a.Health.State == "rebooting" }

// MIG counts the MIG instances and the undivided NVIDIA GPUs of a host.
type MIG struct {
	Partitions map[string]int // instances by profile, and undivided GPUs as ""
	GPUs       int
	Empty      int // GPUs with MIG on and no instance
}

// migOff is the text of a GPU with MIG off.
const migOff = "MIG off"

// MIG counts the instances of NVIDIA's GPUs that its driver has. GPUs without MIG support are
// undivided.
func (a Account) MIG() MIG {
	out := MIG{Partitions: make(map[string]int)}
	for _, g := range a.GPUs {
		if g.Vendor != "nvidia" || g.Index < 0 && g.Driver != "nvidia" {
			continue
		}
		out.GPUs++
		switch {
		case len(g.Mode.Slices) > 0:
			for _, profile := range g.Mode.Slices {
				out.Partitions[profile]++
			}
		case g.Index < 0 || g.Mode.Whole == migOff:
			out.Partitions[""]++
		default:
			out.Empty++
		}
	}
	return out
}

// Problem returns the current problem with its hint.
func (a Account) Problem() string {
	var out []string
	for _, p := range a.Problems {
		out = append(out, strings.TrimSuffix(p.Text+"; "+p.Hint, "; "))
	}
	if len(out) == 0 {
		return a.Health.Summary
	}
	return strings.Join(out, ". ")
}
