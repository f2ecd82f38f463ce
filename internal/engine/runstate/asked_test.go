package runstate

import (
	"testing"
	"time"
)

func TestAsked_Reason(t *testing.T) {
	at := func(n int) time.Time { return time.Unix(int64(n), 0) }
	asked := &State{Boot: "b", Phase: Applying, Since: at(10), Asked: &Asked{Why: "the configuration changed"}}
	idle := &State{Boot: "b", Phase: InSync, Since: at(10), Asked: asked.Asked}
	const somebody, boot = "dcm-apply.service was started directly", "the host has booted"
	for _, test := range []struct {
		name  string
		state *State
		last  *Run
		want  string
	}{
		{"the daemon asked", asked, &Run{Boot: "b", Started: at(5)}, "the configuration changed"},
		{"the daemon asked for the first one", asked, nil, "the configuration changed"},
		{"that run has begun already", asked, &Run{Boot: "b", Started: at(11)}, somebody},
		{"the daemon rests", idle, &Run{Boot: "b", Started: at(5)}, somebody},
		{"there is no daemon", nil, &Run{Boot: "b", Started: at(5)}, somebody},
		{"a boot", nil, nil, boot},
		{"a soft-reboot", idle, &Run{Boot: "b", Started: at(2)}, boot},
		{"the daemon asked before a soft-reboot's first run", asked, &Run{Boot: "b", Started: at(2)}, "the configuration changed"},
		{"a boot, with the report of another", &State{Boot: "a", Phase: Applying, Asked: asked.Asked}, &Run{Boot: "a"}, boot},
	} {
		if got := ForRun(test.state, test.last, "b", func() time.Time { return at(3) }, func() bool { return false }).String(); got != test.want {
			t.Errorf("%s: %q, want %q", test.name, got, test.want)
		}
	}
	since, yes := func() time.Time { return at(3) }, func() bool { return true }
	if got := ForRun(nil, nil, "b", since, yes).Why; got != Installed {
		t.Errorf("the first run after an installation: %q, want %q", got, Installed)
	}
	if got := ForRun(nil, &Run{Boot: "b", Started: at(2)}, "b", since, yes).Why; got != boot {
		t.Errorf("a soft-reboot after an installation: %q, want %q", got, boot)
	}
}

func TestAsked_Text(t *testing.T) {
	for want, w := range map[string]Who{
		"alice in session-3.scope":           {UID: 1000, User: "alice", Login: "alice", Unit: "session-3.scope"},
		"root (sudo of alice)":               {User: "root", Sudo: "alice", Login: "alice"},
		"root (login of bob)":                {User: "root", Login: "bob"},
		"root (sudo of alice, login of bob)": {User: "root", Sudo: "alice", Login: "bob"},
		"uid 4711 in ansible-runner.service": {UID: 4711, Unit: "ansible-runner.service"},
	} {
		if got := w.String(); got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
}
