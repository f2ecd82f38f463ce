package status

import (
	"fmt"
	"slices"
	"strings"
)

// Line returns the verdict and the first problem in one line.
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

// Unfit returns, for each client that systemd cannot restart, the reason.
func (a Account) Unfit() []string {
	var out []string
	for _, c := range a.Clients {
		if why := c.unfit(); why != "" {
			out = append(out, fmt.Sprintf("%s is a client, %s", c.Unit, why))
		}
	}
	return out
}

// Runs reports whether the client is active, starting or stopping.
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

// Loose returns the processes that have a device node of a driver open but no partition.
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

// Lost describes the missing GPUs, or returns "".
func (a Account) Lost() string {
	for _, p := range a.Problems {
		if p.State == Missing {
			return p.Text
		}
	}
	return ""
}
