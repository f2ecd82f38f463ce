package agent

import (
	"strings"
	"time"
)

// Account is what is taken of an account, dcm-account(5) version 1.
type Account struct {
	Version int       `json:"version"`
	Taken   time.Time `json:"taken"`
	Profile struct {
		InForce string `json:"in_force"`
	} `json:"profile"`
	Health struct {
		State   string `json:"state"`
		Summary string `json:"summary"`
		InSync  bool   `json:"in_sync"`
	} `json:"health"`
	Problems []struct {
		Text string `json:"text"`
		Cure string `json:"cure"`
	} `json:"problems"`
	GPUs    []GPU `json:"gpus"`
	LastRun *struct {
		Result string `json:"result"`
	} `json:"last_run"`
}

// GPU is one of an account's.
type GPU struct {
	Index  int    `json:"index"`
	Vendor string `json:"vendor"`
	Mode   struct {
		Compute string `json:"compute"`
		Memory  string `json:"memory"`
	} `json:"mode"`
	Partitions int `json:"partitions"`
}

// Running tells whether a run is under way, or the host about to go down for one.
func (a Account) Running() bool {
	return a.Health.State == "changing" || a.Health.State == "rebooting" || a.LastRun != nil && a.LastRun.Result == "running"
}

// Partitions counts those of AMD's GPUs that dcm manages, by mode: cpx_nps4, as the
// device plugin calls them.
func (a Account) Partitions() map[string]int {
	out := make(map[string]int)
	for _, g := range a.GPUs {
		if g.Vendor == "amd" && g.Index >= 0 {
			out[strings.ToLower(strings.Trim(g.Mode.Compute+"_"+g.Mode.Memory, "_"))] += g.Partitions
		}
	}
	return out
}

// Problem is what is wrong, with what can be done about it.
func (a Account) Problem() string {
	var out []string
	for _, p := range a.Problems {
		out = append(out, strings.TrimSuffix(p.Text+"; "+p.Cure, "; "))
	}
	if len(out) == 0 {
		return a.Health.Summary
	}
	return strings.Join(out, ". ")
}
