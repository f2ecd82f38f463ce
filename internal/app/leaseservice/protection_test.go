package leaseservice

import (
	"testing"

	"dcm/internal/engine/runstate"
)

func TestClosedTo(t *testing.T) {
	state := runstate.Guard{GuardTable: runstate.GuardTable{Table: []runstate.Guarded{
		{Node: "/dev/dri/renderD128", Holder: "dcm-exclusive-0-00000001.scope"},
		{Node: "/dev/dri/renderD129", Holder: "dcm-exclusive-0-00000001.scope"},
		{Node: "/dev/dri/renderD129", Holder: "dcm-lease-0-00000002.scope"},
	}}}
	for node, want := range map[string]string{"/dev/dri/renderD128": "/dev/dri/renderD128", "/dev/dri/renderD129": "", "/dev/dri/renderD130": ""} {
		if got := closedTo(state, "dcm-lease-0-00000002.scope", []string{"/dev/kfd", node}); got != want {
			t.Errorf("of %s, %q is closed, want %q", node, got, want)
		}
	}
}
