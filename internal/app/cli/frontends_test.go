package cli

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"dcm/internal/app/cli/change"
	"dcm/internal/app/cli/console"
	"dcm/internal/app/cli/query"
	"dcm/internal/engine/apply"
	"dcm/internal/engine/config"
	"dcm/internal/engine/host"
	"dcm/internal/engine/runstate"
	"dcm/internal/frontends/dbusapi"
	"dcm/internal/frontends/metrics"
	"dcm/internal/frontends/status"
	"dcm/internal/linux/unitname"
)

// verdict is what every frontend must show of a status.
type verdict struct {
	Selected string // the effective profile
	InSync   bool
	Health   string
	Modes    string // of the managed GPUs
	NotBack  int    // clients
}

// TestFrontends_Agree: all frontends show the same for random statuses.
func TestFrontends_Agree(t *testing.T) {
	for seed := range uint64(500) {
		a := random(rand.New(rand.NewPCG(seed, 9)))
		want := verdict{a.Profile.Effective, a.Health.InSync, string(a.Health.State), modes(a), notBack(a)}
		for name, tell := range map[string]func(status.Account) verdict{"json": byJSON, "metrics": byMetrics, "bus": byBus} {
			if diff := cmp.Diff(want, tell(a)); diff != "" {
				t.Errorf("seed %d, %s (-status +shown):\n%s", seed, name, diff)
			}
		}
		text := string(query.StatusText(&console.Console{}, a, time.Now(), true))
		if !strings.Contains(text, a.Health.Summary) || !strings.HasPrefix(a.Line(), a.Health.Summary) {
			t.Errorf("seed %d: the summary is %q, the status line %q, and dcm status says\n%s", seed, a.Health.Summary, a.Line(), text)
		}
		if back := readBack(a); !cmp.Equal(a.Parts, back.Parts, cmpopts.EquateEmpty()) || !cmp.Equal(a.Leases, back.Leases, cmpopts.EquateEmpty()) {
			t.Errorf("seed %d: the JSON has other holders or leases:\n%s%s", seed, cmp.Diff(a.Parts, back.Parts), cmp.Diff(a.Leases, back.Leases))
		}
		for _, g := range a.GPUs {
			if g.Managed() && !regexp.MustCompile(regexp.QuoteMeta(g.Address)+` +\S+ +`+regexp.QuoteMeta(g.Mode.String())+` `).MatchString(text) {
				t.Errorf("seed %d: dcm status does not say that %s has %s:\n%s", seed, g.Address, g.Mode, text)
			}
		}
		if n := strings.Count(text, ", not back"); n != want.NotBack {
			t.Errorf("seed %d: dcm status has %d clients not back, want %d", seed, n, want.NotBack)
		}
	}
}

func random(r *rand.Rand) status.Account {
	pick := func(all ...string) string { return all[r.IntN(len(all))] }
	a := status.Account{
		Profile:  status.Profile{Effective: pick("", "cpx", "spx"), Broken: pick("", "", "dcm.toml:1: no")},
		Daemon:   status.Daemon{Phase: runstate.Phase(pick("", "idle", "in-sync", "applying", "waiting", "failed", "drifted", "rebooting"))},
		Expected: status.Expected{GPUs: r.IntN(4)},
	}
	for i := range r.IntN(4) {
		g := status.GPU{Index: i, Address: fmt.Sprintf("0000:%02x:00.0", i), Model: "MI300X", Mode: status.Shape{Compute: pick("SPX", "CPX"), Memory: "NPS1"}, Why: pick("", "", "", "a display")}
		if a.Profile.Effective != "" {
			g.Want = status.Shape{Compute: pick("CPX", g.Mode.Compute), Memory: "NPS1"}
		}
		a.GPUs = append(a.GPUs, g)
		addLeases(r, &a, g.Address)
	}
	for i := range r.IntN(4) {
		a.Clients = append(a.Clients, status.Client{Unit: fmt.Sprintf("c%d.service", i), Load: "loaded", Active: pick("active", "inactive", "failed"), Before: "active", Back: r.IntN(2) == 0})
	}
	for _, unit := range []string{unitname.Daemon, unitname.Apply} {
		a.Units = append(a.Units, status.Unit{Unit: unit, Active: pick("active", "inactive"), Enabled: pick("enabled", "disabled"), Ran: true})
	}
	if r.IntN(4) == 0 {
		a.Hidden = append(a.Hidden, status.Unavailable{Part: pick("gpus", "clients", "holders"), Why: "permission denied"})
	}
	return status.Evaluate(a)
}

// addLeases gives some partitions of a GPU a lease.
func addLeases(r *rand.Rand, a *status.Account, gpu string) {
	for i := range r.IntN(9) {
		p := status.Part{Name: fmt.Sprintf("%s-%d", gpu, i), GPU: gpu, Index: i, Holders: []string{}}
		if r.IntN(2) == 0 {
			lease := fmt.Sprintf("dcm-lease-1000-%08x.scope", r.Uint32())
			p.Holders = []string{lease}
			a.Leases = append(a.Leases, status.Lease{Lease: lease, UID: 1000, User: "ada", Command: "python", Partitions: []string{p.Name}})
		}
		a.Parts = append(a.Parts, p)
	}
}

// readBack returns the account that a reader of the JSON form gets.
func readBack(a status.Account) status.Account {
	var out bytes.Buffer
	var back status.Account
	if err := (&console.Console{Out: &out}).Answer(a); err != nil {
		panic(err)
	}
	if err := json.Unmarshal(out.Bytes(), &back); err != nil {
		panic(err)
	}
	return back
}

func modes(a status.Account) string {
	var out []string
	for _, g := range a.GPUs {
		if g.Managed() {
			out = append(out, g.Address+" "+g.Mode.String())
		}
	}
	return strings.Join(out, ", ")
}

func notBack(a status.Account) int {
	return len(slices.DeleteFunc(slices.Clone(a.Clients), func(c status.Client) bool { return c.Back }))
}

func byJSON(a status.Account) verdict {
	back := readBack(a)
	return verdict{back.Profile.Effective, back.Health.InSync, string(back.Health.State), modes(back), notBack(back)}
}

func byMetrics(a status.Account) verdict {
	text := string(metrics.Render(a, time.Time{}, nil))
	one := func(pattern string) string {
		if m := regexp.MustCompile(`(?m)^` + pattern).FindStringSubmatch(text); m != nil {
			return m[1]
		}
		return ""
	}
	v := verdict{Selected: strings.Replace(one(`dcm_profile_info{profile="([^"]*)"`), "none", "", 1),
		InSync: one(`dcm_in_sync (.*)`) == "1", Health: one(`dcm_health_info{state="([^"]*)"`)}
	fmt.Sscan(one(`dcm_clients_not_back (.*)`), &v.NotBack)
	var all []string
	for _, m := range regexp.MustCompile(`(?m)^dcm_gpu_mode_info{gpu="([^"]*)",model="[^"]*",compute="([^"]*)",memory="([^"]*)"`).FindAllStringSubmatch(text, -1) {
		all = append(all, m[1]+" "+m[2]+"/"+m[3])
	}
	v.Modes = strings.Join(all, ", ")
	return v
}

func byBus(a status.Account) verdict {
	out := dbusapi.AccountProperties(a)
	m := out[""]
	v := verdict{Selected: m["SelectedProfile"].(string), InSync: m["InSync"].(bool), Health: m["Health"].(string)}
	for _, c := range m["Clients"].([]dbusapi.ClientUnit) {
		if !c.Back {
			v.NotBack++
		}
	}
	var all []string
	for path, g := range out {
		if strings.HasPrefix(path, "/gpu/") && g["Unmanaged"] == "" {
			all = append(all, fmt.Sprintf("%s %s/%s", g["Address"], g["ComputeMode"], g["MemoryMode"]))
		}
	}
	slices.Sort(all)
	v.Modes = strings.Join(all, ", ")
	return v
}

func TestStatus_UnfitClients(t *testing.T) {
	a := status.Account{Clients: []status.Client{
		{Unit: "masked.service", Load: "masked", Active: "active", Sub: "running", Back: true},
		{Unit: "none.service", Load: "not-found", Active: "inactive", Back: true},
		{Unit: "gone.service", Load: "not-found", Active: "active", Sub: "running", Back: true},
		{Unit: "bad.service", Load: "bad-setting", Active: "active", Sub: "running", Back: true},
		{Unit: "fine.service", Load: "loaded", Active: "active", Sub: "running", Back: true},
	}}
	if diff := cmp.Diff([]string{
		"masked.service is a client, and masked: systemd cannot restart it",
		"none.service is a client, but not installed",
		"gone.service is a client, and its unit file is gone: systemd cannot restart it",
		"bad.service is a client, and its unit file cannot be used (bad-setting)",
	}, a.Unfit()); diff != "" {
		t.Errorf("warnings (-want +got):\n%s", diff)
	}
	text := string(query.StatusText(&console.Console{}, status.Evaluate(a), time.Now(), false))
	for _, want := range []string{`masked\.service +active \(running\), masked `, `none\.service +not installed `, `gone\.service +active \(running\), without a unit file `, `bad\.service +active \(running\), bad-setting `} {
		if !regexp.MustCompile(want).MatchString(text) {
			t.Errorf("%s is not in\n%s", want, text)
		}
	}
}

func TestReportApplied_OtherProblems(t *testing.T) {
	a := status.Evaluate(status.Account{
		Profile:  status.Profile{Effective: "cpx"},
		GPUs:     []status.GPU{{Address: "0000:05:00.0", Mode: status.Shape{Compute: "CPX"}, Want: status.Shape{Compute: "CPX"}}},
		Expected: status.Expected{GPUs: 2, By: status.ByLastSuccess, Missing: []string{"0000:26:00.0"}},
	})
	var out, err bytes.Buffer
	if got := change.ReportApplied(&console.Console{Out: &out, Err: &err}, &runstate.State{Phase: runstate.InSync, Profile: "cpx"}, time.Second, a.Problems); got != nil {
		t.Error(got)
	}
	if want := "dcm: warning: 1 of 2 GPUs: missing 0000:26:00.0\n"; err.String() != want {
		t.Errorf("warned %q, want %q", &err, want)
	}
}

func TestJudge_UnseenHolder(t *testing.T) {
	a := status.Account{Problems: []status.Problem{{State: status.Held, Text: "something that cannot be seen holds the driver"}, {State: status.NotOn, Text: "else"}}}
	var out bytes.Buffer
	var p query.Plan
	p.Judge(t.Context(), &host.Host{Root: t.TempDir()}, &console.Console{Err: &out}, a, &config.Config{ReloadDriver: true}, apply.Difference{})
	if want := "dcm: warning: something that cannot be seen holds the driver\n"; out.String() != want {
		t.Errorf("printed %q, want %q", &out, want)
	}
}

// Support sees all that dcm runs on the host.
func TestBundle_EveryUnit(t *testing.T) {
	files, err := filepath.Glob("../../../systemd/*.service")
	if err != nil || len(files) == 0 {
		t.Fatalf("no units: %v", err)
	}
	for _, file := range files {
		if unit := filepath.Base(file); !slices.Contains(unitname.All(), unit) {
			t.Errorf("%s is not asked of", unit)
		}
	}
}
