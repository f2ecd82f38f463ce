package slurm

import (
	"slices"
	"strings"

	"dcm/internal/sanitize"
)

// Node is slurmctld's record of a node.
type Node struct {
	Available []string // features
	Active    []string // of these
	State     string   // "IDLE+DRAIN"
	Reason    string   // why it is down or drained; "" for none
}

// ParseNode reads what `scontrol --oneliner show node NAME` prints.
func ParseNode(text string) Node {
	line, _, _ := strings.Cut(strings.TrimSpace(text), "\n")
	reason := ""
	if _, after, ok := strings.Cut(line, " Reason="); ok {
		// Behind it is who gave it, and when.
		if reason = after; strings.HasSuffix(after, "]") && strings.Contains(after, " [") {
			reason = after[:strings.LastIndex(after, " [")]
		}
	}
	return Node{
		Available: list(value(line, "AvailableFeatures")), Active: list(value(line, "ActiveFeatures")),
		State: value(line, "State"), Reason: sanitize.Text(reason),
	}
}

// value is what stands behind a key, to the next blank. A text of a user's or an
// administrator's, a comment say, stands behind the keys that are looked for.
func value(line, key string) string {
	_, after, _ := strings.Cut(line, " "+key+"=")
	word, _, _ := strings.Cut(after, " ")
	if word == "(null)" {
		return ""
	}
	return sanitize.Text(word)
}

func list(text string) []string {
	if text == "" {
		return nil
	}
	return strings.Split(text, ",")
}

// refused is how the reason begins that slurmd gives when a helper has failed.
const refused = "Failed to set node feature"

// Refused reports whether slurmd has said of the node that its helper failed.
func (n Node) Refused() bool { return strings.HasPrefix(n.Reason, refused) }

// Invalid reports whether slurmctld has refused what slurmd has registered with. Such a
// node cannot be resumed until slurmd has registered again.
func (n Node) Invalid() bool { return strings.Contains(n.State, "INVAL") }

// Has reports whether slurmctld has just these of the features for active. Those of
// other helpers, and those that never change, are not looked at.
func (n Node) Has(active []string, ours map[string]string) bool {
	var had []string
	for _, f := range n.Active {
		if _, our := ours[f]; our {
			had = append(had, f)
		}
	}
	slices.Sort(had)
	want := slices.Clone(active)
	slices.Sort(want)
	return slices.Equal(had, want)
}
