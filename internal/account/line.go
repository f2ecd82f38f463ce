package account

import (
	"fmt"
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

// NotInstalled says of each client that there is no such unit.
func (a Account) NotInstalled() []string {
	var out []string
	for _, c := range a.Clients {
		if c.Load == "not-found" {
			out = append(out, fmt.Sprintf("%s is a client, but not installed", c.Unit))
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
