package query

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"dcm/internal/app/cli/console"
	"dcm/internal/engine/runstate"
	"dcm/internal/frontends/status"
	"dcm/internal/gpu/partition"
	"dcm/internal/text"
)

// node returns an account of eight GPUs in CPX/NPS4, with leases and reservations of random partitions.
func node(r *rand.Rand) status.Account {
	a := status.Account{Profile: status.Profile{Effective: "cpx", Source: "/etc/dcm/dcm.toml:1"}}
	mode := status.Shape{Compute: "CPX", Memory: "NPS4"}
	for i := range 8 {
		g := status.GPU{Index: i, Address: fmt.Sprintf("0000:%02x:00.0", 16*i+5), Vendor: "amd", Model: "MI300X", Mode: mode, Want: mode, Partitions: 8, NUMA: i / 4}
		if r.IntN(10) == 0 {
			g.Mode.Compute, g.Partitions = "QPX", 4
		}
		a.GPUs = append(a.GPUs, g)
		for p := range g.Partitions {
			a.Parts = append(a.Parts, status.Part{Name: fmt.Sprintf("%s-%d", g.Address, p), GPU: g.Address, Index: p})
		}
	}
	for i := range a.Parts {
		p := &a.Parts[i]
		switch r.IntN(6) {
		case 0:
			lease := fmt.Sprintf("dcm-lease-1000-%08x.scope", i)
			a.Leases = append(a.Leases, status.Lease{Lease: lease, User: "ada", Partitions: []string{p.Name}})
			p.Holders = []string{lease}
		case 1:
			p.Holders = []string{"reservation llm"}
		case 2:
			p.Holders = []string{"python[4711]", "trainer.service"}
		}
	}
	return status.Evaluate(a)
}

// The status of random accounts shows as many held partitions as dcm partitions lists, and each lease
// holds the partitions that it names.
func TestStatus_AgreesWithPartitions(t *testing.T) {
	for seed := range uint64(300) {
		a := node(rand.New(rand.NewPCG(seed, 27)))
		listed := 0
		for _, p := range usedParts(a, status.Usage{}) {
			if len(p.Holders) > 0 {
				listed++
			}
		}
		shown, total := 0, 0
		for _, m := range regexp.MustCompile(`(\d+) of (\d+) held`).FindAllStringSubmatch(string(StatusText(&console.Console{}, a, time.Now(), false)), -1) {
			var held, of int
			fmt.Sscan(m[1], &held)
			fmt.Sscan(m[2], &of)
			shown, total = shown+held, total+of
		}
		if shown != listed || total != len(a.Parts) {
			t.Fatalf("seed %d: dcm status shows %d of %d held, dcm partitions %d of %d", seed, shown, total, listed, len(a.Parts))
		}
		held := a.HeldPerGPU()
		sum := 0
		for _, n := range held {
			sum += n
		}
		if sum != listed {
			t.Fatalf("seed %d: %d held by GPU, %d listed", seed, sum, listed)
		}
		for _, l := range a.Leases {
			if shown := heldBy(a, l.Lease); strings.Join(shown, " ") != strings.Join(l.Partitions, " ") {
				t.Fatalf("seed %d: %s holds %q, want %q", seed, l.Lease, shown, l.Partitions)
			}
		}
	}
}

func heldBy(a status.Account, holder string) []string {
	var out []string
	for _, p := range usedParts(a, status.Usage{}) {
		for _, h := range p.Holders {
			if h == holder {
				out = append(out, p.Name)
			}
		}
	}
	return out
}

// GPUs that are alike share a line, so that the status has at most twelve.
func TestStatus_Short(t *testing.T) {
	a := node(rand.New(rand.NewPCG(1, 1)))
	for i := range a.GPUs {
		a.GPUs[i].Mode.Compute = "CPX"
	}
	a.Clients = []status.Client{{Unit: "gpuagent.service", Load: "loaded", Active: "active", Sub: "running", Before: "active", Back: true}}
	a = status.Evaluate(a)
	for _, width := range []int{60, 80, 160} {
		var out bytes.Buffer
		shown := string(StatusText(console.Fixed(&out, width), a, time.Now(), false))
		if n := strings.Count(shown, "\n"); n < 5 || n > 12 {
			t.Errorf("width %d: %d lines:\n%s", width, n, shown)
		}
		for line := range strings.Lines(shown) {
			if n := text.Width(strings.TrimRight(line, "\n")); n > width {
				t.Errorf("width %d: a line of %d: %s", width, n, line)
			}
		}
		if !strings.Contains(shown, "gpuagent") || !strings.Contains(shown, "0-3") {
			t.Errorf("width %d:\n%s", width, shown)
		}
	}
}

// The status draws a box for each partition, or a bar without boxes if there are more than eight.
func TestStatus_Boxes(t *testing.T) {
	mode := status.Shape{Compute: "SPX", Memory: "NPS1"}
	for _, tt := range []struct {
		gpus, each, held int
		want             string
	}{
		{1, 1, 0, "□ 0 of 1 held"},
		{4, 1, 0, "□□□□ 0 of 4 held"},
		{1, 2, 1, "■□ 1 of 2 held"},
		{2, 4, 3, "■■■□□□□□ 3 of 8 held"},
		{3, 3, 1, "▕█░░░░░░░▏ 1 of 9 held"},
		{4, 8, 32, "▕████████▏ 32 of 32 held"},
	} {
		var a status.Account
		for i := range tt.gpus {
			g := status.GPU{Index: i, Address: fmt.Sprintf("0000:%02x:00.0", i+5), Vendor: "amd", Model: "MI300X", Mode: mode, Partitions: tt.each}
			a.GPUs = append(a.GPUs, g)
			for p := range tt.each {
				part := status.Part{Name: fmt.Sprintf("%s-%d", g.Address, p), GPU: g.Address, Index: p}
				if len(a.Parts) < tt.held {
					part.Holders = []string{"train.service"}
				}
				a.Parts = append(a.Parts, part)
			}
		}
		shown := string(StatusText(&console.Console{}, status.Evaluate(a), time.Now(), false))
		if !strings.Contains(shown, "  "+tt.want+"\n") {
			t.Errorf("want %q in:\n%s", tt.want, shown)
		}
	}
}

// A client that is stopped, but not by dcm, is no fault: PID 1 does not record who stopped it. The status says how
// to start it.
func TestStatus_StoppedClients(t *testing.T) {
	client := func(unit, active string, back bool) status.Client {
		return status.Client{Unit: unit, Load: "loaded", Active: active, Ran: true, Before: "active", Back: back}
	}
	missing := status.Client{Unit: "d.service", Load: "not-found", Active: "inactive", Back: true}
	for _, tt := range []struct {
		apply   string // the state of dcm-apply.service
		clients []status.Client
		state   status.State
		want    string
	}{
		{"active", []status.Client{client("a.service", "active", true), client("b.service", "active", true)}, status.Healthy, "2 of 2 running: a, b"},
		{"active", []status.Client{client("a.service", "inactive", true), client("b.service", "inactive", true)}, status.Healthy, "0 of 2 running; stopped: a, b (start with systemctl)"},
		{"inactive", []status.Client{client("a.service", "inactive", true), client("b.service", "inactive", true)}, status.Clients, "0 of 2 running; down: a, b"},
		{"active", []status.Client{client("a.service", "active", true), client("b.service", "inactive", false), client("c.service", "inactive", true), missing}, status.Clients,
			"1 of 4 running: a; down: b; stopped: c (start with systemctl); not installed or masked: d"},
		{"active", []status.Client{client("a.service", "active", true), client("b.service", "deactivating", true)}, status.Healthy, "1 of 2 running: a; stopping: b (systemctl kill ends it)"},
	} {
		a := node(rand.New(rand.NewPCG(1, 1)))
		for i := range a.GPUs {
			a.GPUs[i].Mode.Compute = "CPX"
		}
		a.Clients = tt.clients
		a.Units = []status.Unit{{Unit: "dcm.service", Active: "active", Ran: true}, {Unit: "dcm-apply.service", Active: tt.apply, Ran: true}}
		a = status.Evaluate(a)
		shown := string(StatusText(&console.Console{}, a, time.Now(), false))
		if a.Health.State != tt.state || !strings.Contains(shown, " "+tt.want+"\n") {
			t.Errorf("state %s, want %s and %q in:\n%s", a.Health.State, tt.state, tt.want, shown)
		}
	}
}

// Each unit that the daemon has to start is listed, without those that the present run stops.
func TestStatus_PendingStarts(t *testing.T) {
	at := func(second int) time.Time { return time.Date(2026, 1, 2, 3, 4, second, 0, time.Local) }
	a := node(rand.New(rand.NewPCG(1, 1)))
	a.Daemon.Pending = []status.PendingStart{
		{Unit: "a.service", Since: at(5), Reason: runstate.LeftDown, Next: at(10)},
		{Unit: "b.service", Since: at(5), Reason: runstate.StoppedByRun, WaitsFor: "b.service"},
		{Unit: "c.service", Since: at(5), Reason: runstate.StoppedByRun, WaitsFor: "b.service"},
		{Unit: "d.service", Reason: runstate.DependencyFailed},
	}
	for _, tt := range []struct {
		phase runstate.Phase
		want  []string
	}{
		{runstate.Waiting, []string{
			"TO START SINCE REASON NEXT TRY", "a.service 03:04:05 a failed run left it down at 03:04:10",
			"b.service 03:04:05 a run stopped it systemd starts or stops it now", "c.service 03:04:05 a run stopped it after systemd has started b.service",
			"d.service - a unit that it requires failed at its first start when the profile is on the GPUs",
		}},
		{runstate.Applying, []string{
			"TO START SINCE REASON NEXT TRY", "a.service 03:04:05 a failed run left it down after the run",
			"d.service - a unit that it requires failed at its first start after the run",
		}},
	} {
		a.Daemon.Phase = tt.phase
		a := status.Evaluate(a)
		var got []string
		for line := range strings.Lines(string(StatusText(&console.Console{}, a, time.Now(), false))) {
			if words := strings.Join(strings.Fields(line), " "); strings.HasPrefix(words, "TO START") || len(words) > 10 && words[1:9] == ".service" {
				got = append(got, words)
			}
		}
		if diff := cmp.Diff(tt.want, got); diff != "" {
			t.Errorf("phase %s: (-want +got):\n%s", tt.phase, diff)
		}
	}
}

func TestStatus_LostGPU(t *testing.T) {
	a := node(rand.New(rand.NewPCG(1, 1)))
	now := time.Date(2026, 1, 2, 12, 0, 0, 0, time.Local)
	lost := a.GPUs[4]
	a.GPUs = append(a.GPUs[:4], a.GPUs[5:]...)
	a.Expected = status.Expected{GPUs: 8, By: status.ByLastSuccess, Missing: []string{lost.Address},
		Lost: []status.Lost{{Index: 4, Address: lost.Address, Vendor: "amd", Model: "MI300X", Since: now.Add(-time.Hour)}}}
	for _, long := range []bool{false, true} {
		shown := string(StatusText(&console.Console{}, status.Evaluate(a), now, long))
		if !regexp.MustCompile(`\n  4 +` + lost.Address + ` +MI300X +missing since 11:00:00\n`).MatchString(shown) {
			t.Errorf("long %t: no line of the lost GPU:\n%s", long, shown)
		}
	}
}

// On a narrow terminal the reason why GPUs do not match has precedence over the drawing of their partitions.
func TestStatus_NotMatchingNarrow(t *testing.T) {
	now, want := status.Shape{Compute: "CPX", Memory: "NPS4"}, status.Shape{Compute: "SPX", Memory: "NPS1"}
	var a status.Account
	a.Profile.Effective = "spx"
	for i := range 4 {
		g := status.GPU{Index: i, Address: fmt.Sprintf("0000:%02x:00.0", i+5), Vendor: "amd", Model: "MI300X", Mode: now, Want: want, Partitions: 8, Left: true}
		a.GPUs = append(a.GPUs, g)
	}
	for width, drawn := range map[int]bool{60: false, 80: false, 160: true} {
		var out bytes.Buffer
		shown := string(StatusText(console.Fixed(&out, width), status.Evaluate(a), time.Now(), false))
		if !strings.Contains(shown, "0 of 32 held") || strings.Contains(shown, "░ ") || strings.Contains(shown, "▏ 0 of") != drawn {
			t.Errorf("width %d:\n%s", width, shown)
		}
	}
}

// A GPU that the profile skips does not count as one that matches it.
func TestStatus_Skipped(t *testing.T) {
	cpx, spx := status.Shape{Compute: "CPX", Memory: "NPS1"}, status.Shape{Compute: "SPX", Memory: "NPS1"}
	var a status.Account
	a.Profile.Effective = "spx"
	for i := range 4 {
		g := status.GPU{Index: i, Address: fmt.Sprintf("0000:%02x:00.0", i+5), Vendor: "amd", Model: "MI300X", Mode: cpx, Want: spx, Partitions: 8}
		if i > 1 {
			g.Want, g.Skipped = cpx, true
		}
		a.GPUs = append(a.GPUs, g)
	}
	if shown := string(StatusText(&console.Console{}, status.Evaluate(a), time.Now(), false)); !strings.Contains(shown, "On the GPUs  0 of 2, and 2 skipped\n") {
		t.Errorf("status:\n%s", shown)
	}
}

// GPUs that a starting daemon has not read are neither missing nor absent.
func TestStatus_Starting(t *testing.T) {
	a := status.Account{Profile: status.Profile{Effective: "cpx"}, Daemon: status.Daemon{Phase: runstate.Starting},
		Expected: status.Expected{GPUs: 1, Missing: []string{"0000:1b:00.0"}, Lost: []status.Lost{{Address: "0000:1b:00.0"}}}}
	shown := string(StatusText(&console.Console{}, status.Evaluate(a), time.Now(), false))
	if !strings.Contains(shown, "not read yet: dcm.service is starting") || strings.Contains(shown, "missing") || strings.Contains(shown, "none found") {
		t.Errorf("shown:\n%s", shown)
	}
}

// Without a GPU that dcm manages, the status does not count any.
func TestStatus_NoManagedGPU(t *testing.T) {
	a := status.Account{Profile: status.Profile{Effective: "cpx"}, GPUs: []status.GPU{
		{Index: -1, Address: "0000:1b:00.0", Model: "H100", Why: "no library"}, {Index: -1, Address: "0000:43:00.0", Model: "H100", Why: "no library"},
	}}
	shown := string(StatusText(&console.Console{}, status.Evaluate(a), time.Now(), false))
	if strings.Contains(shown, "On the GPUs") || strings.Count(shown, "not managed: no library") != 1 {
		t.Errorf("want one line for both, and no count:\n%s", shown)
	}
}

// While a run changes the GPUs, those count that have what it sets.
func TestStatusText_WhileRunning(t *testing.T) {
	a := node(rand.New(rand.NewPCG(1, 1)))
	cpx, spx := partition.Mode{Compute: "CPX", Memory: "NPS4"}, partition.Mode{Compute: "SPX", Memory: "NPS4"}
	a.Daemon.Phase = runstate.Applying
	a.LastRun = &runstate.Run{Started: time.Now()}
	for i := range a.GPUs {
		a.GPUs[i].Mode = status.Shape{Compute: "CPX", Memory: "NPS4"}
		now := cpx
		if i < 3 {
			now, a.GPUs[i].Mode.Compute = spx, "SPX"
		}
		a.LastRun.GPUs = append(a.LastRun.GPUs, runstate.GPU{Address: partition.Address(a.GPUs[i].Address), Want: partition.Shape{Mode: spx}, Now: partition.Shape{Mode: now}})
	}
	got := string(StatusText(&console.Console{}, a, time.Now(), false))
	if !strings.Contains(got, "… On the GPUs  3 of 8\n") {
		t.Errorf("status:\n%s", got)
	}
}
