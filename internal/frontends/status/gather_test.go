package status

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"dcm/internal/engine/runstate"
	"dcm/internal/gpu/partition"
)

func sources() Sources {
	a := eight()
	return Sources{
		Settings: func() (Settings, error) {
			return Settings{Profile: "cpx", Source: "/etc/dcm/dcm.toml:1", Defined: []string{"cpx"}}, nil
		},
		GPUs:    func(context.Context) (Inventory, error) { return Inventory{GPUs: a.GPUs}, nil },
		Units:   func(context.Context) (UnitStates, error) { return UnitStates{Own: a.Units, Clients: a.Clients}, nil },
		Holders: func(context.Context) ([]runstate.Holder, error) { return nil, nil },
		Daemon: func(context.Context) (*runstate.State, error) {
			return &runstate.State{Phase: runstate.InSync, Profile: "cpx", Clients: []runstate.Client{{Unit: "vllm.service", Before: "active", Now: "inactive"}}}, nil
		},
		Run: func(context.Context) (*runstate.Run, error) { return nil, nil },
		Known: func(context.Context) (runstate.Known, error) {
			return runstate.Known{GPUs: []string{a.GPUs[0].Address, "0000:ff:00.0"}}, nil
		},
	}
}

func hiddenParts(a Account) string {
	var out []string
	for _, h := range a.Hidden {
		out = append(out, h.Part+": "+h.Why)
	}
	return strings.Join(out, "\n")
}

func TestGather_FailedPart(t *testing.T) {
	no := errors.New("permission denied")
	tests := map[string]struct {
		change func(*Sources)
		hidden string
	}{
		"gpus":     {func(s *Sources) { s.GPUs = func(context.Context) (Inventory, error) { return Inventory{}, no } }, "gpus: permission denied"},
		"holders":  {func(s *Sources) { s.Holders = func(context.Context) ([]runstate.Holder, error) { return nil, no } }, "holders: permission denied"},
		"daemon":   {func(s *Sources) { s.Daemon = func(context.Context) (*runstate.State, error) { return nil, no } }, "daemon: permission denied"},
		"last_run": {func(s *Sources) { s.Run = func(context.Context) (*runstate.Run, error) { return nil, no } }, "last_run: permission denied"},
		"units":    {func(s *Sources) { s.Units = func(context.Context) (UnitStates, error) { return UnitStates{}, no } }, "units: permission denied\nclients: systemd was not queried: these are the states after the last restart"},
		"expected": {func(s *Sources) {
			s.Known = func(context.Context) (runstate.Known, error) { return runstate.Known{}, no }
		}, "expected: permission denied"},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			s := sources()
			tt.change(&s)
			a := Gather(t.Context(), time.Now(), s)
			if diff := cmp.Diff(tt.hidden, hiddenParts(a)); diff != "" {
				t.Errorf("hidden (-want +got):\n%s", diff)
			}
			if a.Profile.Effective != "cpx" || a.Health.Summary == "" {
				t.Errorf("health without the failed part: %+v", a.Health)
			}
		})
	}
}

func TestGather_PredefinedProfiles(t *testing.T) {
	for want, seen := range map[string][]string{"cpx": nil, "all-1g.10gb cpx": {"all-1g.10gb", "cpx"}} {
		s := sources()
		gpus := s.GPUs
		s.GPUs = func(ctx context.Context) (Inventory, error) {
			sight, err := gpus(ctx)
			sight.Profiles = seen
			return sight, err
		}
		if a := Gather(t.Context(), time.Now(), s); strings.Join(a.Profile.Defined, " ") != want {
			t.Errorf("profiles: got %q, want %q", a.Profile.Defined, want)
		}
	}
}

func TestGather_HangingPart(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := sources()
		hang := make(chan struct{})
		s.Holders = func(context.Context) ([]runstate.Holder, error) { <-hang; return nil, nil }
		s.Run = func(context.Context) (*runstate.Run, error) { <-hang; return nil, nil }
		began := time.Now()
		a := Gather(t.Context(), time.Now(), s)
		if took := time.Since(began); took != PartTimeout {
			t.Errorf("took %s, want %s", took, PartTimeout)
		}
		if len(a.Hidden) != 2 || len(a.GPUs) != 8 {
			t.Errorf("%d GPUs, hidden: %s", len(a.GPUs), hiddenParts(a))
		}
		close(hang)
	})
}

func TestGather_ClientBack(t *testing.T) {
	a := Gather(t.Context(), time.Now(), sources())
	if len(a.Clients) != 1 || !a.Clients[0].Back || a.Clients[0].Before != "active" {
		t.Errorf("clients: %+v", a.Clients)
	}
}

// The administrator can stop a client after the restart, also with dcm-apply.service.
func TestGather_ClientEnded(t *testing.T) {
	for active, want := range map[string]bool{"active": false, "inactive": true, "failed": true, "activating": false} {
		s := sources()
		s.Daemon = func(context.Context) (*runstate.State, error) {
			return &runstate.State{Phase: runstate.InSync, Clients: []runstate.Client{{Unit: "a.service", Before: "active", Now: "active", Back: true}}}, nil
		}
		s.Units = func(context.Context) (UnitStates, error) {
			return UnitStates{Clients: []Client{{Unit: "a.service", Load: "loaded", Active: active}}}, nil
		}
		if c := Gather(t.Context(), time.Now(), s).Clients; len(c) != 1 || !c[0].Back || c[0].Ended != want {
			t.Errorf("%s: got %+v, want ended %t", active, c, want)
		}
	}
}

// A client with Type=oneshot is inactive after it has ended.
func TestGather_OneshotBack(t *testing.T) {
	for _, tt := range []struct {
		name string
		now  Client
		done []string
		back bool
	}{
		{"a new run ended with success", Client{Active: "inactive", Invocation: "2"}, []string{"job.service"}, true},
		{"no new run", Client{Active: "inactive", Invocation: "1"}, []string{"job.service"}, false},
		{"a new run failed", Client{Active: "failed", Invocation: "2"}, nil, false},
		{"a service that has ended", Client{Active: "inactive", Invocation: "2"}, nil, false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			s := sources()
			s.Daemon = func(context.Context) (*runstate.State, error) {
				return &runstate.State{Phase: runstate.InSync, Clients: []runstate.Client{{Unit: "job.service", Before: "activating", Now: "inactive", Invocation: "1"}}}, nil
			}
			tt.now.Unit, tt.now.Load = "job.service", "loaded"
			s.Units = func(context.Context) (UnitStates, error) {
				return UnitStates{Clients: []Client{tt.now}, Done: tt.done}, nil
			}
			if c := Gather(t.Context(), time.Now(), s).Clients; len(c) != 1 || c[0].Back != tt.back {
				t.Errorf("clients: got %+v, want back %t", c, tt.back)
			}
		})
	}
}

// The results of the last restart do not apply to a client that the current run stops.
func TestGather_ClientInRun(t *testing.T) {
	s := sources()
	s.Daemon = func(context.Context) (*runstate.State, error) {
		up := func(unit string) runstate.Client {
			return runstate.Client{Unit: unit, Before: "active", Now: "active", Back: true}
		}
		return &runstate.State{Phase: runstate.Applying, Pending: runstate.PendingStarts{{Unit: "new.service"}, {Unit: "vllm.service"}}, Clients: []runstate.Client{up("vllm.service"), up("other.service")}}, nil
	}
	states := func() map[string]string {
		out := make(map[string]string)
		for _, c := range Gather(t.Context(), time.Now(), s).Clients {
			out[c.Unit] = fmt.Sprintf("%s, now %s, as it was: %t", c.Before, c.Active, c.Back)
		}
		return out
	}
	for now, want := range map[string]string{
		"inactive": "active, now inactive, as it was: false",
		"active":   "active, now active, as it was: true",
	} {
		s.Units = func(context.Context) (UnitStates, error) {
			return UnitStates{Clients: []Client{{Unit: "vllm.service", Load: "loaded", Active: now}}}, nil
		}
		if got := states()["vllm.service"]; got != want {
			t.Errorf("%s: got %q", now, got)
		}
	}
	s.Units = nil // the daemon does not query systemd
	want := map[string]string{
		"new.service":   "active, now restarting, as it was: false",
		"vllm.service":  "active, now restarting, as it was: false",
		"other.service": "active, now active, as it was: true",
	}
	if diff := cmp.Diff(want, states()); diff != "" {
		t.Errorf("without a query of systemd (-want +got):\n%s", diff)
	}
}

func TestGather_MissingGPU(t *testing.T) {
	s := sources()
	gpus := eight().GPUs
	s.GPUs = func(context.Context) (Inventory, error) { return Inventory{GPUs: gpus[:1]}, nil }
	a := Gather(t.Context(), time.Now(), s)
	want := Expected{GPUs: 2, By: ByLastSuccess, Missing: []string{"0000:ff:00.0"}, Lost: []Lost{{Index: -1, Address: "0000:ff:00.0"}}}
	if diff := cmp.Diff(want, a.Expected); diff != "" {
		t.Errorf("expected (-want +got):\n%s", diff)
	}
	s.Settings = func() (Settings, error) { return Settings{Profile: "cpx", Defined: []string{}, Count: 1}, nil }
	if a = Gather(t.Context(), time.Now(), s); a.Health.State != Healthy {
		t.Errorf("with count = 1: %+v", a.Health)
	}
}

func TestGather_ConfigurationError(t *testing.T) {
	s := sources()
	s.Settings = func() (Settings, error) { return Settings{}, errors.New("dcm.toml:1: no") }
	a := Gather(t.Context(), time.Now(), s)
	if a.Profile.Selected != "" || a.Profile.Effective != "cpx" || a.Health.State != Kept {
		t.Errorf("got %+v, %+v", a.Profile, a.Health)
	}
}

// The request for a memory mode stays pending after runs that change nothing.
func TestPending_AfterEmptyRun(t *testing.T) {
	s := sources()
	s.Host.Boot = "b"
	s.Run = func(context.Context) (*runstate.Run, error) {
		return &runstate.Run{Boot: "b", Result: runstate.Unchanged, Pending: map[partition.Address]partition.Memory{"0000:00:00.0": "NPS4", "0000:01:00.0": "NPS1"}}, nil
	}
	a := Gather(t.Context(), time.Now(), s)
	if a.GPUs[0].Pending != "NPS4" || a.GPUs[1].Pending != "" || a.Health.State != Pending {
		t.Errorf("pending: %q, %q; %+v", a.GPUs[0].Pending, a.GPUs[1].Pending, a.Health)
	}
}

// A reservation that cannot be met is a problem although all clients are active.
func TestGather_UnmetReservation(t *testing.T) {
	saved := &runstate.State{Phase: runstate.InSync, Profile: "cpx", Error: &runstate.Error{Text: "reservation big cannot be met", Unmet: true}}
	var a Account
	addDaemon(&a, saved)
	if a.Daemon.Error == nil || a.Daemon.Error.State != Unmet {
		t.Errorf("the daemon's error is %+v, want the state %s", a.Daemon.Error, Unmet)
	}
}

func TestGather_BlockingHolders(t *testing.T) {
	s := sources()
	s.Daemon = func(context.Context) (*runstate.State, error) {
		return &runstate.State{Phase: runstate.Waiting, Profile: "cpx", Holders: []runstate.Holder{{PID: 7}}}, nil
	}
	s.Holders = func(context.Context) ([]runstate.Holder, error) { return []runstate.Holder{{PID: 7}, {PID: 8}}, nil }
	a := Gather(t.Context(), time.Now(), s)
	if len(a.Holders) != 2 || !a.Holders[0].InWay || a.Holders[1].InWay {
		t.Errorf("holders: %+v", a.Holders)
	}
	s.Holders = nil
	if a = Gather(t.Context(), time.Now(), s); len(a.Holders) != 1 || !a.Holders[0].InWay {
		t.Errorf("holders that were not read: %+v", a.Holders)
	}
}

// The saved state may be older than the GPUs.
func TestGather_Left(t *testing.T) {
	spx, cpx := Shape{Compute: "SPX"}, Shape{Compute: "CPX"}
	s := sources()
	s.GPUs = func(context.Context) (Inventory, error) {
		return Inventory{GPUs: []GPU{{Address: "0000:05:00.0", Mode: spx, Want: cpx}, {Address: "0000:26:00.0", Mode: cpx, Want: cpx}, {Address: "0000:46:00.0", Mode: spx, Want: cpx}}}, nil
	}
	s.Daemon = func(context.Context) (*runstate.State, error) {
		return &runstate.State{Phase: runstate.Waiting, Profile: "cpx", Left: []partition.Address{"0000:05:00.0", "0000:26:00.0"}}, nil
	}
	var got []string
	for _, g := range Gather(t.Context(), time.Now(), s).GPUs {
		got = append(got, g.Change())
	}
	if diff := cmp.Diff([]string{"left", "applied", "selected"}, got); diff != "" {
		t.Errorf("states (-want +got):\n%s", diff)
	}
}
