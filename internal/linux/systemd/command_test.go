package systemd

import "testing"

func TestUnits_FailedCommand(t *testing.T) {
	well := execution{Path: "/usr/bin/true", PID: 7, Ended: 1, Code: 1}
	for _, test := range []struct {
		name   string
		props  map[string][]execution
		want   string
		before bool
	}{
		{"none", map[string][]execution{"ExecStart": {well}}, "", false},
		{"ExecStartPre", map[string][]execution{
			"ExecStartPre": {well, {Path: "/opt/\x1bhook", Arguments: []string{"hook", "--secret"}, PID: 8, Ended: 2, Code: 1, Status: 3}},
			"ExecStart":    {{Path: "/usr/bin/dcm"}},
		}, `ExecStartPre=/opt/\x1bhook: exit status 3`, true},
		{"failure ignored", map[string][]execution{
			"ExecStartPre": {{Path: "/a", PID: 8, Ended: 2, Code: 1, Status: 3, Ignored: true}},
			"ExecStart":    {{Path: "/usr/bin/dcm", PID: 9, Ended: 3, Code: 2, Status: 9}},
		}, "ExecStart=/usr/bin/dcm: killed by signal 9", false},
		{"ExecStartPost", map[string][]execution{"ExecStart": {well}, "ExecStartPost": {{Path: "/b", PID: 8, Ended: 2, Code: 1, Status: 1}}},
			"ExecStartPost=/b: exit status 1", false},
	} {
		t.Run(test.name, func(t *testing.T) {
			p := startPID1(t)
			p.set("a.service", "failed/failed", "01")
			p.property("a.service", "Result", "exit-code")
			for name, value := range test.props {
				p.property("a.service", name, value)
			}
			c, ctx := p.dial()
			units, err := c.Units.List(ctx, []string{"a.service"}, All)
			if err != nil {
				t.Fatal(err)
			}
			got := ""
			if units[0].Failed.Path != "" {
				got = units[0].Failed.String()
			}
			if got != test.want || units[0].Failed.Before() != test.before {
				t.Errorf("failed is %q, before the service's own: %t; want %q, %t", got, units[0].Failed.Before(), test.want, test.before)
			}
		})
	}
}
