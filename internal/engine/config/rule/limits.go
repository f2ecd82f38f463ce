package rule

import (
	"fmt"
	"path/filepath"
	"time"

	"dcm/internal/engine/config/source"
	"dcm/internal/sanitize"
)

// Duration is the rule of a duration with a unit. For a number, the error suggests the unit usual.
func Duration(allowed func(time.Duration) bool, accepted, usual string) Rule {
	return Rule{Check: func(c *Checker, key string, n *source.Node) {
		if v, ok := n.Value.(int64); ok {
			c.Fail(n, key, &source.Fault{Text: "has no unit", Accepted: accepted, Suggestion: fmt.Sprintf("%d%s", v, usual)})
			return
		}
		Scalar("a string", func(s string) *source.Fault {
			d, err := time.ParseDuration(s)
			switch {
			case err != nil:
				return &source.Fault{Text: "not a duration", Accepted: accepted}
			case !allowed(d):
				return &source.Fault{Text: "out of range", Accepted: accepted}
			}
			return nil
		}).Check(c, key, n)
	}}
}

// AbsolutePath checks a clean absolute path; "" is valid.
func AbsolutePath(path string) *source.Fault {
	if path == "" || filepath.IsAbs(path) && filepath.Clean(path) == path && sanitize.Text(path) == path {
		return nil
	}
	return &source.Fault{Text: "not a clean absolute path", Accepted: `a path such as "/opt/rocm/lib/libamd_smi.so", or "" for the usual places`}
}

// Between returns a check for a range that includes its limits.
func Between(least, most int64) func(int64) *source.Fault {
	return func(n int64) *source.Fault {
		if n < least || n > most {
			return &source.Fault{Text: "out of range", Accepted: fmt.Sprintf("%d to %d", least, most)}
		}
		return nil
	}
}

// Rest is the count of a group that takes all remaining GPUs.
const Rest = "rest"

// MaxGPUs limits counts and indices of GPUs.
const MaxGPUs = 1 << 16
