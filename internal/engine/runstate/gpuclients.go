package runstate

import (
	"fmt"
	"slices"
	"time"

	"dcm/internal/gpu/partition"
	"dcm/internal/linux/statefile"
	"dcm/internal/text"
)

// GPUClientsFile is the name of the daemon's file below /var/lib/dcm with the clients that had a GPU open. After
// a boot, only this file shows which clients used a GPU before it.
const GPUClientsFile = "gpu-clients.json"

// GPUClients are the clients that had a GPU open when the daemon last scanned the processes.
type GPUClients struct {
	Version int         `json:"version"`
	Boot    string      `json:"boot"`
	Clients []GPUClient `json:"clients"` // in the order of their units
}

// GPUClient is a client that had a GPU open.
type GPUClient struct {
	Unit  string              `json:"unit"`
	GPUs  []partition.Address `json:"gpus"`          // that it had open
	Seen  time.Time           `json:"seen,omitzero"` // time of the scan that found that; zero if it was in an earlier boot
	State GPUUse              `json:"state"`
	Since time.Time           `json:"since,omitzero"` // of NoGPU: the scan that found none
}

// GPUUse is whether a client has a GPU open again after its restart.
type GPUUse string

// The states of a client that had a GPU open.
const (
	GPUOpen    GPUUse = "open"    // it had one open at the last scan
	GPUAwaited GPUUse = "awaited" // it was restarted, and is to open one until settle-time after its start
	NoGPU      GPUUse = "none"    // it was restarted, has been active for settle-time, and has none open
)

// ClientUse is what systemd and a scan of the processes show of a client.
type ClientUse struct {
	Active    bool
	Starting  bool          // systemd starts it, or dcm still has to start it
	ActiveFor time.Duration // how long it has been active
	Open      []partition.Address
	Unknown   bool // a process of it could not be inspected
}

// Next returns the client after a scan. keep is false if it has stopped. settle is how long it may take to open a
// GPU after its start.
func (c GPUClient) Next(u ClientUse, now time.Time, settle time.Duration) (next GPUClient, keep bool) {
	since := now.Add(-u.ActiveFor)
	switch {
	case len(u.Open) > 0:
		return GPUClient{Unit: c.Unit, GPUs: u.Open, Seen: now, State: GPUOpen}, true
	case c.State == GPUOpen, u.Unknown:
		return c, true
	case u.Starting:
		return c.as(GPUAwaited, time.Time{}), true
	case !u.Active:
		return c, false
	case !since.After(c.Seen):
		return c.as(GPUOpen, time.Time{}), true // it was not restarted
	case u.ActiveFor < settle:
		return c.as(GPUAwaited, time.Time{}), true
	case c.State == NoGPU:
		return c, true
	}
	return c.as(NoGPU, now), true
}

func (c GPUClient) as(state GPUUse, since time.Time) GPUClient {
	c.State, c.Since = state, since
	return c
}

// Restarted returns the clients after a restart of some units.
func (g GPUClients) Restarted(restarted func(unit string) bool) GPUClients {
	g.Clients = slices.Clone(g.Clients)
	for i, c := range g.Clients {
		if restarted(c.Unit) {
			g.Clients[i] = c.as(GPUAwaited, time.Time{})
		}
	}
	return g
}

// InBoot returns the clients in a boot. All of an earlier boot were restarted since.
func (g GPUClients) InBoot(boot string) GPUClients {
	if g.Boot == boot {
		return g
	}
	g = g.Restarted(func(string) bool { return true })
	for i := range g.Clients {
		g.Clients[i].Seen = time.Time{}
	}
	g.Boot = boot
	return g
}

// State returns the state of a client, "" if it is not in the list.
func (g GPUClients) State(unit string) GPUUse {
	for _, c := range g.Clients {
		if c.Unit == unit {
			return c.State
		}
	}
	return ""
}

// Same reports whether two lists differ in nothing but the times of the scans.
func (g GPUClients) Same(o GPUClients) bool {
	return slices.EqualFunc(g.Clients, o.Clients, func(a, b GPUClient) bool {
		return a.Unit == b.Unit && a.State == b.State && a.Since.Equal(b.Since) && slices.Equal(a.GPUs, b.GPUs)
	})
}

// WithoutGPU describes a client that has no GPU open. before are those that it had open.
func WithoutGPU(unit string, before []string) string {
	return fmt.Sprintf("%s has no GPU open since its restart (before: %s)", unit, text.Few(before))
}

// Names returns the addresses of its GPUs.
func (c GPUClient) Names() []string {
	out := make([]string, len(c.GPUs))
	for i, a := range c.GPUs {
		out[i] = string(a)
	}
	return out
}

// Has reports whether a client has one of the states.
func (g GPUClients) Has(states ...GPUUse) bool {
	return slices.ContainsFunc(g.Clients, func(c GPUClient) bool { return slices.Contains(states, c.State) })
}

// GPUClientsIn returns the file with that path.
func GPUClientsIn(path string) statefile.File[GPUClients] {
	return statefile.File[GPUClients]{Path: path, Version: Version, Field: func(g *GPUClients) *int { return &g.Version }}
}

// ReadGPUClients returns the clients of the file in this boot, or none if there is no file.
func ReadGPUClients(path, boot string) (GPUClients, error) {
	g, err := GPUClientsIn(path).Valid()
	if g == nil {
		return GPUClients{Boot: boot}, err
	}
	return g.InBoot(boot), nil
}
