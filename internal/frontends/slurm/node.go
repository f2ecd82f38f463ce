package slurm

import (
	"slices"
	"strings"

	"dcm/internal/sanitize"
)

// Node is slurmctld's record of a node.
type Node struct {
	Available []string // all features
	Active    []string // the features that are active now
	Gres      string   // the generic resources of slurm.conf, "gpu:cpx_nps4:64"
	State     string   // "IDLE+DRAIN"
	Reason    string   // why it is down or drained; "" for none
}

// ParseNode parses the output of `scontrol --oneliner show node NAME`.
func ParseNode(text string) Node {
	line, _, _ := strings.Cut(strings.TrimSpace(text), "\n")
	reason := ""
	if _, after, ok := strings.Cut(line, " Reason="); ok {
		// The user and the time follow in brackets.
		if reason = after; strings.HasSuffix(after, "]") && strings.Contains(after, " [") {
			reason = after[:strings.LastIndex(after, " [")]
		}
	}
	return Node{
		Available: list(valueOf(line, "AvailableFeatures")), Active: list(valueOf(line, "ActiveFeatures")), Gres: valueOf(line, "Gres"),
		State: valueOf(line, "State"), Reason: sanitize.Text(reason),
	}
}

// valueOf returns the value of a key, up to the next blank. It finds the first such key, and free
// texts such as a comment come after the keys that dcm reads.
func valueOf(line, key string) string {
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

// helperFailed begins the reason that slurmd sets after a failure of its helper.
const helperFailed = "Failed to set node feature"

// HelperFailed reports whether the node is drained because slurmd's helper failed.
func (n Node) HelperFailed() bool { return strings.HasPrefix(n.Reason, helperFailed) }

// Invalid reports whether slurmctld rejected slurmd's registration. Such a node cannot be
// resumed until slurmd has registered again.
func (n Node) Invalid() bool { return strings.Contains(n.State, "INVAL") }

// Has reports whether, of the features in ours, exactly those in active are active. It ignores all
// other features.
func (n Node) Has(active []string, ours map[string]string) bool {
	var has []string
	for _, f := range n.Active {
		if _, isOurs := ours[f]; isOurs {
			has = append(has, f)
		}
	}
	slices.Sort(has)
	want := slices.Clone(active)
	slices.Sort(want)
	return slices.Equal(has, want)
}
