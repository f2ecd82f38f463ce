package status

import (
	"fmt"
	"slices"
	"strings"
)

// Line is the verdict with the first thing that is wrong, as one line.
func (a Account) Line() string {
	s := a.Health.Summary
	for i, p := range a.Problems {
		if i == 0 {
			s += ": " + strings.ReplaceAll(strings.TrimSpace(p.Text), "\n", "; ")
			continue
		}
		s += fmt.Sprintf(" (and %d more)", len(a.Problems)-1)
		break
	}
	return s
}

// Unfit says of each client that systemd cannot restart why that is so.
func (a Account) Unfit() []string {
	var out []string
	for _, c := range a.Clients {
		if why := c.unfit(); why != "" {
			out = append(out, fmt.Sprintf("%s is a client, %s", c.Unit, why))
		}
	}
	return out
}

// Runs tells whether the client is up, or on its way there or down.
func (c Client) Runs() bool { return c.Active != "inactive" && c.Active != "failed" }

func (c Client) unfit() string {
	switch {
	case c.Load == "loaded" || c.Load == "":
		return ""
	case c.Load == "not-found" && !c.Runs():
		return "but not installed"
	case c.Load == "not-found":
		return "and its unit file is gone: systemd cannot restart it"
	case c.Load == "masked":
		return "and masked: systemd cannot restart it"
	}
	return "and its unit file cannot be used (" + c.Load + ")"
}

// Loose are the processes that have something of a driver's open and no partition.
func (a Account) Loose() []Holder {
	var out []Holder
	for _, h := range a.Holders {
		has := slices.ContainsFunc(a.Parts, func(p Part) bool {
			return slices.Contains(h.Devices, p.RenderNode) || slices.Contains(h.Devices, p.Card)
		})
		if !has && len(h.Devices) > 0 && len(a.Parts) > 0 {
			out = append(out, h)
		}
	}
	return out
}

// Lost says which GPUs are missing, "" if none are.
func (a Account) Lost() string {
	for _, p := range a.Problems {
		if p.State == Missing {
			return p.Text
		}
	}
	return ""
}
