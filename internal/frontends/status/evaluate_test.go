package status

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"dcm/internal/engine/runstate"
	"dcm/internal/linux/unitname"
)

// eight returns a node without problems: eight GPUs with the profile, one client, both units.
func eight() Account {
	a := Account{
		Profile:  Profile{Selected: "cpx", Effective: "cpx"},
		Daemon:   Daemon{Phase: runstate.InSync},
		Expected: Expected{GPUs: 8, By: ByLastSuccess},
		Clients:  []Client{{Unit: "vllm.service", Load: "loaded", Active: "active", Sub: "running", Ran: true, Before: "active", Back: true}},
		Units: []Unit{
			{Unit: unitname.Daemon, Load: "loaded", Active: "active", Sub: "running", Ran: true, Enabled: "enabled"},
			{Unit: unitname.Apply, Load: "loaded", Active: "active", Sub: "exited", Ran: true, Enabled: "enabled"},
		},
	}
	for i := range 8 {
		a.GPUs = append(a.GPUs, GPU{Index: i, Address: "0000:0" + string(rune('0'+i)) + ":00.0",
			Mode: Shape{Compute: "CPX", Memory: "NPS1"}, Want: Shape{Compute: "CPX", Memory: "NPS1"}})
	}
	return a
}

func TestHealth(t *testing.T) {
	failed := &Problem{Waiting, "GPUs are in use", "stop them"}
	other := Shape{Compute: "SPX", Memory: "NPS1"}
	tests := []struct {
		name    string
		change  func(a *Account)
		state   State
		inSync  bool
		summary string // prefix of the summary
		problem string // part of one problem
	}{
		{"in order", func(*Account) {}, Healthy, true, "Profile cpx is on the GPUs", ""},
		{"two problems", func(a *Account) {
			a.GPUs[3].Mode, a.Profile.Applied = other, ""
			a.Clients[0].Active, a.Clients[0].Back = "inactive", false
		}, Clients, false,
			"Profile cpx is not on the GPUs, and a client is down", ""},
		{"a client without its GPU", func(a *Account) {
			a.Clients[0].GPU, a.Clients[0].GPUs = runstate.NoGPU, List[string]{"0000:05:00.0"}
		}, NoGPU, true, "Profile cpx is on the GPUs", "vllm.service has no GPU open since its restart (before: 0000:05:00.0)"},
		{"a client that is to open its GPU", func(a *Account) { a.Clients[0].GPU = runstate.GPUAwaited }, Healthy, true, "Profile cpx is on the GPUs", ""},
		{"none selected", func(a *Account) { a.Profile = Profile{} }, Idle, true, "No profile is selected; the GPUs are left alone", ""},
		{"no GPUs", func(a *Account) { a.Profile, a.GPUs, a.Expected = Profile{}, nil, Expected{} }, Idle, true, "No partitionable GPU was found", ""},
		{"no partitionable GPUs", func(a *Account) {
			a.Profile, a.GPUs, a.Expected = Profile{}, []GPU{{Address: "0000:01:00.0", Why: "driver not bound"}}, Expected{}
		}, Idle, true, "No partitionable GPU was found", ""},
		{"the daemon starts", func(a *Account) {
			a.Profile, a.GPUs, a.Expected, a.Daemon = Profile{}, nil, Expected{}, Daemon{Phase: runstate.Starting}
		}, Idle, true, "No profile is selected", ""},
		{"the daemon has not read the GPUs", func(a *Account) { a.GPUs, a.Daemon = nil, Daemon{Phase: runstate.Starting} }, Starting, false,
			"dcm is starting; profile cpx is not on the GPUs yet", ""},
		{"the unit of the daemon is starting", func(a *Account) {
			a.Units[0].Active, a.Units[0].Sub, a.GPUs, a.Daemon = "activating", "start", a.GPUs[:3], Daemon{}
		}, Starting, false, "dcm is starting; profile cpx is not on the GPUs yet", ""},
		{"the same, with a hidden part", func(a *Account) {
			a.Units[0].Active, a.GPUs, a.Hidden = "activating", nil, []Unavailable{{partGPUs, "context deadline exceeded"}}
		}, Starting, false, "dcm is starting", ""},
		{"the daemon starts, and the GPUs match", func(a *Account) { a.Units[0].Active, a.Daemon.Phase = "activating", runstate.Starting }, Healthy, true,
			"Profile cpx is on the GPUs", ""},
		{"the GPUs are in another mode at the start", func(a *Account) { a.Daemon.Phase, a.GPUs[3].Mode = runstate.Starting, other }, Starting, false, "dcm is starting", ""},
		{"only the GPUs are known", func(a *Account) { a.Daemon, a.Units, a.Clients, a.Expected = Daemon{}, nil, nil, Expected{} }, Healthy, true,
			"Profile cpx is on the GPUs", ""},
		{"a GPU without its partition", func(a *Account) {
			a.GPUs[3].Partitions = 1
		}, Nodeless, true, "Profile cpx is on the GPUs, but partitions have no device node", "0000:03:00.0: too few partitions with a device node of their own (found 0, want 1)"},
		{"a GPU with its partition", func(a *Account) {
			a.GPUs[3].Partitions, a.Parts = 1, []Part{{GPU: a.GPUs[3].Address}}
		}, Healthy, true, "Profile cpx is on the GPUs", ""},
		{"a GPU without its partition during a run", func(a *Account) {
			a.Daemon.Phase, a.GPUs[3].Partitions = runstate.Applying, 1
		}, Changing, true, "Profile cpx is being put on the GPUs", ""},
		{"a GPU without its partition while a lease switches it", func(a *Account) {
			a.GPUs[3].Partitions, a.GPUs[3].Rest = 8, "SPX"
		}, Healthy, true, "Profile cpx is on the GPUs", ""},
		{"a GPU whose partition has no minor", func(a *Account) {
			a.GPUs[3].Partitions, a.Problems = 1, []Problem{{Nodeless, "0000:03:00.0-0 gets no device node", ""}}
		}, Nodeless, true, "Profile cpx is on the GPUs", "gets no device node"},
		{"a reservation without partitions", func(a *Account) { a.Reserved = []Reserved{{Name: "vllm", Wants: 2, Reason: "there are none"}} }, Unmet, true,
			"Profile cpx is on the GPUs, but a reservation has no partitions", "reservation vllm has no partitions: there are none"},
		{"the instance of a service was not created", func(a *Account) {
			a.Units = append(a.Units, Unit{Unit: "dcm-make@3g.40gb_llm.service.service", Load: "loaded", Active: "failed", Sub: "failed", Result: "exit-code"})
		}, Unmet, true, "Profile cpx is on the GPUs, but a unit of dcm has failed", "dcm-make@3g.40gb_llm.service.service is failed (failed), result exit-code: llm.service does not start without its partition"},
		{"the instance of a lease was not created", func(a *Account) {
			a.Units = append(a.Units, Unit{Unit: "dcm-make@lease-0-4f1c09aa_0000:41:00.0_3g.40gb_4.service", Load: "loaded", Active: "failed", Sub: "failed", Result: "signal"})
		}, Faulty, true, "Profile cpx is on the GPUs, but a unit of dcm has failed", "result signal: it did not create or destroy the partition of a lease"},
		{"the guard has failed", func(a *Account) {
			a.Profile, a.Units = Profile{}, append(a.Units, Unit{Unit: unitname.Guard, Load: "loaded", Active: "failed", Sub: "failed", Result: "exit-code"})
		}, Faulty, true, "No profile is selected; the GPUs are left alone, but a unit of dcm has failed", "dcm-guard.service is failed (failed), result exit-code: other processes may be able to open"},
		{"no guard, and nothing exclusive", func(a *Account) {
			a.Reserved, a.Guard.Why = []Reserved{{Name: "vllm", Wants: 1, Partitions: []string{"a-0"}}}, "no"
		}, Healthy, true, "Profile cpx is on the GPUs", ""},
		{"no guard for an exclusive reservation", func(a *Account) {
			a.Reserved, a.Guard.Why = []Reserved{{Name: "vllm", Wants: 1, Partitions: []string{"a-0"}, Exclusive: true}}, "this kernel has no guard"
		}, Shared, true, "Profile cpx is on the GPUs, but reservations are confined, not exclusive", "this kernel has no guard"},
		{"a process has a partition of an exclusive lease open", func(a *Account) { a.Guard.Loaded, a.Guard.Open = true, []string{"grab[1507] has 0000:05:00.0-1 open"} },
			Shared, true, "Profile cpx is on the GPUs, but exclusive partitions are confined, not exclusive", "exclusive partitions are confined, but not exclusive: grab[1507] has"},
		{"no device list for an exclusive reservation", func(a *Account) {
			a.Reserved, a.Guard.Why, a.Guard.Unconfined = []Reserved{{Name: "vllm", Wants: 1, Partitions: []string{"a-0"}, Exclusive: true}}, "this kernel has no guard", true
		}, Shared, true, "Profile cpx is on the GPUs, but reservations are neither confined nor exclusive", "device lists of units have no effect here: this kernel has no guard"},
		{"a new reservation that cannot be met", func(a *Account) { a.Daemon.Error = &Problem{Unmet, "reservation big cannot be met", "reserve less"} }, Unmet, true,
			"Profile cpx is on the GPUs, but a reservation cannot be met", "reservation big cannot be met"},
		{"no partitions chosen", func(a *Account) { a.Daemon.Error = &Problem{Waiting, "dcm-reserve.service failed", ""} }, Waiting, true,
			"Profile cpx is on the GPUs, but not all reservations have their partitions yet", "dcm-reserve.service failed"},
		{"dcm-reserve.service failed", func(a *Account) {
			a.Units = append(a.Units, Unit{Unit: unitname.Reserve, Load: "loaded", Active: "failed", Sub: "failed", Result: "signal"})
		}, Unmet, true, "Profile cpx is on the GPUs", "dcm-reserve.service is failed (failed), result signal: reservations may lack their partitions"},
		{"a unit that is not confined", func(a *Account) {
			addConfinement(a, Confinement{Unconfined: []Unconfined{{Unit: "vllm.service", Why: List[string]{"DevicePolicy=auto, want closed"}}}})
		}, Open, true,
			"Profile cpx is on the GPUs, but a unit is not confined to its partitions", "vllm.service is not confined to its partitions: DevicePolicy=auto, want closed"},
		{"drop-ins that systemd has not loaded", func(a *Account) {
			addConfinement(a, Confinement{Lost: &Problem{Unordered, "systemd has not loaded dcm's drop-ins for a.service", ""}})
		}, Unordered, true, "Profile cpx is on the GPUs", "systemd has not loaded"},
		{"a reservation that cannot be read", func(a *Account) { addReservations(a, ReservationState{Open: []string{"vllm.service"}}) }, Open, true,
			"Profile cpx is on the GPUs, but a unit is not confined to its partitions", "it starts with all devices"},
		{"one GPU in another mode", func(a *Account) { a.Daemon.Phase, a.GPUs[3].Mode = "", other }, NotOn, false, "Profile cpx is not on the GPUs", ""},
		{"a run in progress", func(a *Account) { a.Daemon.Phase, a.GPUs[3].Mode = runstate.Applying, other }, Changing, false, "Profile cpx is being put on the GPUs", ""},
		{"clients down in a run", func(a *Account) { a.Daemon.Phase, a.Clients[0].Active, a.GPUs = runstate.Applying, "inactive", nil }, Changing, false,
			"Profile cpx is being put on the GPUs", ""},
		{"a run without the daemon", func(a *Account) { a.Units[1].Active, a.GPUs[3].Mode = "activating", other }, Changing, false,
			"Profile cpx is being put on the GPUs", ""},
		{"a daemon killed in a run", func(a *Account) { a.Daemon.Phase, a.Units[0].Active = runstate.Applying, "failed" }, Down, true,
			"Profile cpx is on the GPUs, but dcm.service does not run", "dcm.service is failed"},
		{"a visible holder", func(a *Account) { a.Daemon.Phase, a.Daemon.Error, a.GPUs[3].Mode = runstate.Waiting, failed, other }, Waiting, false,
			"Profile cpx is not on the GPUs", "GPUs are in use"},
		{"an unseen holder", func(a *Account) {
			a.Daemon.Phase, a.Daemon.Error, a.GPUs[3].Mode = runstate.Waiting, &Problem{Held, "the driver is in use", ""}, other
		}, Held, false, "Profile cpx is not on the GPUs", "the driver is in use"},
		{"drifted", func(a *Account) { a.Daemon.Phase, a.GPUs[3].Mode = runstate.Drifted, other }, Drifted, false, "Profile cpx is not on the GPUs", ""},
		{"rebooting", func(a *Account) { a.Daemon.Phase, a.GPUs[3].Mode = runstate.Rebooting, other }, Rebooting, false, "Rebooting, to put profile cpx", ""},
		{"failed permanently", func(a *Account) { a.Daemon.Phase, a.GPUs[3].Mode = runstate.Stuck, other }, Failed, false, "Profile cpx is not on the GPUs", ""},
		{"a profile that does not fit", func(a *Account) {
			for i := range a.GPUs {
				a.GPUs[i].Want = Shape{}
			}
		}, NotOn, false, "Profile cpx is not on the GPUs", ""},
		{"a missing GPU", func(a *Account) { a.GPUs, a.Expected.Missing = a.GPUs[:7], []string{"0000:07:00.0"} }, Missing, false,
			"Profile cpx is on 7 of 8 GPUs", "7 of 8 GPUs: missing 0000:07:00.0"},
		{"a GPU without a driver", func(a *Account) { a.GPUs[7].Why = "driver not bound" }, Missing, false, "Profile cpx is on 7 of 8 GPUs", "7 of 8 GPUs"},
		{"an additional GPU", func(a *Account) { a.Expected.GPUs = 7 }, Healthy, true, "Profile cpx is on the GPUs", ""},
		{"a client that is down", func(a *Account) { a.Clients[0].Active, a.Clients[0].Back = "inactive", false }, Clients, true,
			"Profile cpx is on the GPUs, but a client is down", "vllm.service is down: it is inactive"},
		{"a failed client", func(a *Account) { a.Clients[0].Active, a.Clients[0].Result = "failed", "exit-code" }, Clients, true,
			"Profile cpx is on the GPUs, but a client is down", "vllm.service is down: it is failed (running), result exit-code"},
		{"a client that its administrator stopped", func(a *Account) { a.Clients[0].Active = "inactive" }, Healthy, true, "Profile cpx is on the GPUs", ""},
		{"clients stopped with dcm-apply.service", func(a *Account) { a.Clients[0].Active, a.Units[1].Active = "inactive", "inactive" }, Clients, true,
			"Profile cpx is on the GPUs, but a client is down", "vllm.service is down: it was stopped together with dcm-apply.service"},
		{"the same, forgotten by PID 1", func(a *Account) {
			a.Clients[0].Active, a.Clients[0].Ran, a.Units[1].Active = "inactive", false, "inactive"
		}, Clients, true, "Profile cpx is on the GPUs, but a client is down", "vllm.service is down: it was stopped together with dcm-apply.service"},
		{"clients that never ran", func(a *Account) {
			a.Clients[0].Active, a.Clients[0].Ran, a.Clients[0].Before, a.Units[1].Active = "inactive", false, "inactive", "inactive"
		}, Healthy, true, "Profile cpx is on the GPUs", ""},
		{"a client that is up again", func(a *Account) { a.Daemon.Error = &Problem{Clients, "not back: vllm.service", ""} }, Healthy, true,
			"Profile cpx is on the GPUs", ""},
		{"drop-ins that systemd could not load", func(a *Account) {
			a.Daemon.Phase, a.Daemon.Error = runstate.Waiting, &Problem{Waiting, "cannot reload systemd", ""}
		}, Waiting, true, "Profile cpx is on the GPUs, but the last apply failed", "cannot reload systemd"},
		{"a failure saved by a stopped daemon", func(a *Account) {
			a.Daemon.Phase, a.Daemon.Error, a.Units[0].Active = runstate.Waiting, &Problem{Waiting, "cannot reload systemd", ""}, "inactive"
		}, Down, true, "Profile cpx is on the GPUs, but dcm.service does not run", "dcm.service is inactive"},
		{"the daemon down", func(a *Account) { a.Units[0].Active, a.Units[0].Sub = "inactive", "dead" }, Down, true,
			"Profile cpx is on the GPUs, but dcm.service does not run", "dcm.service is inactive (dead)"},
		{"a disabled unit", func(a *Account) { a.Units[1].Enabled = "disabled" }, Disabled, true,
			"Profile cpx is on the GPUs, but dcm-apply.service is disabled", "dcm-apply.service is disabled: it is not started at boot"},
		{"disabled units without a profile", func(a *Account) { a.Profile, a.Units[0].Enabled = Profile{}, "disabled" }, Idle, true, "No profile is selected", ""},
		{"an error in the configuration", func(a *Account) { a.Profile.Selected, a.Profile.Broken = "", "dcm.toml:1: no" }, Kept, true,
			"Profile cpx is on the GPUs, but the configuration on disk cannot be used", "dcm.toml:1: no"},
		{"the same, without a known profile", func(a *Account) {
			a.Profile.Broken = "dcm.toml:1: no"
			for i := range a.GPUs {
				a.GPUs[i].Want = Shape{}
			}
		}, Kept, true, "Profile cpx is on the GPUs, but", ""},
		{"an error without a last good configuration", func(a *Account) { a.Profile = Profile{Broken: "dcm.toml:1: no"} }, Broken, false, "The configuration cannot be used", "dcm.toml:1: no"},
		{"an outdated memory mode", func(a *Account) { a.GPUs[0].Pending, a.GPUs[1].Pending = "NPS4", "NPS4" }, Pending, true,
			"Profile cpx is on the GPUs, but NPS4 is pending", "NPS4 is requested for 0000:00:00.0"},
		{"hidden GPUs", func(a *Account) { a.GPUs, a.Hidden = nil, []Unavailable{{partGPUs, "permission denied"}} }, Unseen, false,
			"Profile cpx is selected; the GPUs cannot be seen", ""},
		{"clients that cannot be read", func(a *Account) {
			a.Hidden, a.Daemon.Error = []Unavailable{{partClients, "no bus"}}, &Problem{Clients, "not back: vllm.service", ""}
		}, Clients, true, "Profile cpx is on the GPUs", "not back: vllm.service"},
		{"the worst of several problems", func(a *Account) { a.Units[0].Enabled, a.GPUs, a.Clients[0].Back = "disabled", a.GPUs[:7], false }, Missing, false,
			"Profile cpx is on 7 of 8 GPUs, but", ""},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			a := eight()
			tt.change(&a)
			got := Evaluate(a)
			if got.Health.State != tt.state || got.Health.InSync != tt.inSync || got.Health.Code != tt.state.Code() {
				t.Errorf("got %+v, want %s, in sync %v", got.Health, tt.state, tt.inSync)
			}
			if !strings.HasPrefix(got.Health.Summary, tt.summary) {
				t.Errorf("summary %q, want %q", got.Health.Summary, tt.summary)
			}
			if s := problems(got); !strings.Contains(s, tt.problem) || tt.problem == "" && tt.state == Healthy && s != "" {
				t.Errorf("problems %q, want %q", s, tt.problem)
			}
			if diff := cmp.Diff(got, Evaluate(got)); diff != "" {
				t.Errorf("second evaluation (-once +twice):\n%s", diff)
			}
		})
	}
}

func problems(a Account) string {
	var out []string
	for _, p := range a.Problems {
		out = append(out, p.Text)
	}
	return strings.Join(out, "\n")
}

func TestSummary_NextRetry(t *testing.T) {
	a := eight()
	a.Daemon.Phase, a.Daemon.Retry = runstate.Waiting, time.Date(2026, 1, 2, 15, 4, 5, 0, time.Local)
	a.GPUs[0].Mode = Shape{Compute: "SPX"}
	if got := Evaluate(a).Health.Summary; got != "Profile cpx is not on the GPUs, trying again at 15:04:05" {
		t.Errorf("summary %q", got)
	}
}

// The memory mode that was requested for a GPU without a driver may be the profile's, which is not
// known then.
func TestPending_GPUWithoutDriver(t *testing.T) {
	a := eight()
	for i := range a.GPUs {
		a.GPUs[i].Mode, a.GPUs[i].Want, a.GPUs[i].Pending, a.GPUs[i].Why = Shape{}, Shape{}, "NPS4", "driver not bound"
	}
	if got := Evaluate(a); strings.Contains(got.Line(), "pending") || got.Health.Code != CodeCritical {
		t.Errorf("line %q, exit status %d", got.Line(), got.Health.Code)
	}
}
