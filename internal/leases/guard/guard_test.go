package guard

import (
	"os"
	"strings"
	"testing"

	"dcm/internal/engine/host"
	"dcm/internal/engine/runstate"
)

// These states are determined without PID 1.
func TestGuardDue(t *testing.T) {
	exclusive := []runstate.Reservation{{Name: "vllm", Partitions: []string{"a-0"}, Exclusive: true}}
	for name, tt := range map[string]struct {
		state    *runstate.Guard
		reserved []runstate.Reservation
		off      bool
		want     string // part of the reason; "" if dcm-guard need not run
	}{
		"nothing is exclusive":               {nil, nil, false, ""},
		"nothing is exclusive, and loaded":   {&runstate.Guard{Loaded: true}, nil, false, "nothing is exclusive"},
		"nothing is exclusive, and unloaded": {&runstate.Guard{}, nil, false, ""},
		"dcm-guard has not run":              {nil, exclusive, false, "has not run"},
		"dcm-guard was killed":               {&runstate.Guard{Changing: true}, exclusive, false, "interrupted"},
		"dcm-guard failed":                   {&runstate.Guard{Changing: true, Failure: "no memory"}, exclusive, false, "dcm-guard failed: no memory"},
		"killed, and nothing is exclusive":   {&runstate.Guard{Changing: true}, nil, false, "interrupted"},
		"not supported":                      {&runstate.Guard{Why: "this kernel has no guard"}, exclusive, false, ""},
		"switched off":                       {nil, exclusive, true, ""},
	} {
		t.Run(name, func(t *testing.T) {
			h := &host.Host{Root: t.TempDir()}
			errs := []error{
				os.MkdirAll(h.Runtime(), 0o755),
				runstate.PartitionsIn(h.Runtime()).Write(runstate.Partitions{Reservations: tt.reserved}),
			}
			if tt.state != nil {
				errs = append(errs, runstate.GuardIn(h.Runtime()).Write(*tt.state))
			}
			if tt.off {
				errs = append(errs, os.WriteFile(h.GuardOff(), nil, 0o644))
			}
			for _, err := range errs {
				if err != nil {
					t.Fatal(err)
				}
			}
			got, err := Due(t.Context(), h, nil)
			if err != nil || (got == "") != (tt.want == "") || !strings.Contains(got, tt.want) {
				t.Errorf("reason to run: got %q, %v; want %q", got, err, tt.want)
			}
		})
	}
}

func TestStateOf(t *testing.T) {
	for _, c := range []struct {
		state  runstate.Guard
		due    string
		needed bool
		want   State
	}{
		{runstate.Guard{}, "", false, Unused},
		{runstate.Guard{}, "", true, Unsupported}, // no exclusive partition has a device node
		{runstate.Guard{}, "dcm-guard has not run yet", true, OutOfDate},
		{runstate.Guard{Loaded: true}, "", true, Loaded},
		{runstate.Guard{Why: "this kernel has no guard"}, "", true, Unsupported},
	} {
		got, why := stateOf(c.state, c.due, c.needed)
		if got != c.want || (why == "") != (got == Unused || got == Loaded) {
			t.Errorf("%+v: got %s %q, want %s", c, got, why, c.want)
		}
	}
}

func TestGuardDue_ComparesTheTable(t *testing.T) {
	entry := func(number uint64) runstate.GuardTable {
		return runstate.GuardTable{
			Table: []runstate.Guarded{
				{Node: "/dev/dri/renderD128", Device: "226:128", Holder: "vllm", Cgroups: []runstate.Cgroup{{Path: "/dcm.slice/dcm-vllm.slice", Number: number}}},
				{Node: "/dev/dri/renderD129", Device: "226:129", Holder: "dcm-exclusive-0-00c0ffee.scope"},
			},
			All: []runstate.Cgroup{{Path: "/system.slice/system-dcm.slice", Number: 3}},
		}
	}
	all := func(string) bool { return true }
	lease := func(holder string) bool { return holder != "vllm" }
	h := &host.Host{Root: t.TempDir()}
	if got := difference(h, runstate.Guard{Loaded: true, GuardTable: entry(7)}, entry(7), all); got != "the guard is not loaded" {
		t.Errorf("program not pinned: got %q", got)
	}
	if err := os.MkdirAll(h.Path("sys/fs/bpf/dcm/program"), 0o755); err != nil {
		t.Fatal(err)
	}
	for name, tt := range map[string]struct {
		holder func(string) bool
		want   runstate.GuardTable
		due    bool
	}{
		"the same":                     {all, entry(7), false},
		"another cgroup of a slice":    {all, entry(8), true},
		"a holder that is not checked": {lease, entry(8), false},
		"a device less":                {all, runstate.GuardTable{Table: entry(7).Table[:1], All: entry(7).All}, true},
		"other observers":              {lease, runstate.GuardTable{Table: entry(7).Table}, true},
	} {
		t.Run(name, func(t *testing.T) {
			got := difference(h, runstate.Guard{Loaded: true, GuardTable: entry(7)}, tt.want, tt.holder)
			if (got != "") != tt.due {
				t.Errorf("reason to run: got %q, want one: %t", got, tt.due)
			}
		})
	}
}
