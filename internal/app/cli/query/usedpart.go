package query

import (
	"fmt"
	"strings"

	"dcm/internal/frontends/status"
	"dcm/internal/text"
)

// usedPart is a partition with its holders and use.
type usedPart struct {
	status.Part
	Holders   []string                    `json:"holders"`
	Used      *uint64                     `json:"memory_used_bytes"`
	Busy      *float64                    `json:"busy_percent"`
	Unknown   map[string]string           `json:"unknown,omitempty"`
	Processes status.List[status.Process] `json:"processes"`

	HeldMemory uint64 `json:"gpu_held_memory_bytes"` // of its GPU

	folded int // number of free partitions that are shown as this one; 0 for one
}

func usedParts(a status.Account, u status.Usage) []usedPart {
	uses := make(map[string]status.PartUse, len(u.Parts))
	for _, p := range u.Parts {
		uses[p.Name] = p
	}
	held := make(map[string]uint64)
	for _, g := range a.GPUs {
		held[g.Address] = g.HeldMemory
	}
	all := make([]usedPart, len(a.Parts))
	for i, p := range a.Parts {
		use := uses[p.Name]
		holders := p.Holders // as everything that renders the account has them
		if len(holders) == 0 {
			holders = use.Holders
		}
		all[i] = usedPart{p, append([]string{}, holders...), use.Used, use.Busy, use.Unknown, use.Processes, held[p.GPU], 0}
	}
	return all
}

func (p usedPart) used() string {
	if p.Used == nil {
		return "-"
	}
	return text.GiB(*p.Used)
}

func (p usedPart) busy() string {
	if p.Busy == nil {
		return "-"
	}
	return fmt.Sprintf("%.0f %%", *p.Busy)
}

func (p usedPart) pids() string {
	var all []string
	for _, one := range p.Processes {
		all = append(all, fmt.Sprint(one.PID))
	}
	return strings.Join(all, " ")
}

func bare(node string) string { return strings.TrimPrefix(node, "/dev/dri/") }

// amount is a number of bytes in GiB, with one decimal.
func amount(bytes uint64) string {
	if bytes == 0 {
		return "-"
	}
	return text.GiB(bytes)
}

func count(n int) string {
	if n == 0 {
		return "-"
	}
	return fmt.Sprint(n)
}
