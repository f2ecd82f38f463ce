package systemd

import (
	"strings"
	"testing"
)

func TestUnits_SkippedStopPost(t *testing.T) {
	p := startPID1(t)
	ran := execution{Path: "/c", Arguments: []string{"c"}, PID: 8, Ended: 2, Code: exited}
	killed, never := ran, execution{Path: "/c", Arguments: []string{"c"}}
	killed.Code = 2
	tests := map[string]struct {
		state string
		all   []execution
		want  bool
	}{
		"ran.service":     {"inactive/dead", []execution{ran}, false},
		"killed.service":  {"failed/failed", []execution{killed}, true},
		"never.service":   {"failed/failed", []execution{never}, true},
		"running.service": {"active/running", []execution{never}, false},
	}
	for name, test := range tests {
		p.set(name, test.state, "")
		state, _, _ := strings.Cut(test.state, "/")
		p.property(name, "ActiveState", state)
		p.property(name, "ExecStopPost", test.all)
	}
	c, ctx := p.dial()
	for name, test := range tests {
		if got, err := c.Units.SkippedStopPost(ctx, name); got != test.want || err != nil {
			t.Errorf("%s: %t, %v; want %t", name, got, err, test.want)
		}
	}
}
