// Package standin has test doubles for the agent: the dcm of a host without GPUs, and the part of an
// API server that the agent uses.
package standin

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"net"
	"slices"
	"strings"
	"sync"
	"time"

	"dcm/cmd/dcm-kubernetes/internal/agent"
)

// GPUs is the number of GPUs of the simulated host.
const GPUs = 8

// Address returns the PCI address of a GPU.
func Address(i int) string { return fmt.Sprintf("0000:%02x:00.0", i+1) }

// DCM is the dcm of a host. Its GPUs have the modes of MI300X and change immediately.
type DCM struct {
	// Fail, if set, returns the failure of a run.
	Fail func(profile string) *agent.Refusal
	// Run, if set, is called during a run.
	Run func()

	mig []string // the instances of each H100, separated by blanks; nil for AMD

	mu        sync.Mutex
	modes     []mode // of each GPU of AMD
	effective string
	running   bool
	away      bool
	starting  bool
	drifted   bool
	missed    int // calls of UseFor to leave unanswered
	uses      int
	version   time.Time
	changed   chan struct{}
}

// mode is the mode of a GPU of AMD.
type mode struct{ compute, memory string }

// NewDCM returns a DCM with undivided GPUs.
func NewDCM() *DCM {
	return &DCM{modes: slices.Repeat([]mode{{"SPX", "NPS1"}}, GPUs), version: time.Unix(1, 0), changed: make(chan struct{})}
}

// Away stops or resumes the daemon's replies.
func (d *DCM) Away(away bool) { d.change(func() { d.away = away }) }

// Starting makes the daemon report, as after a restart, that it has not read the GPUs.
func (d *DCM) Starting(starting bool) { d.change(func() { d.starting = starting }) }

// Drift makes the daemon report that the GPUs do not match the profile.
func (d *DCM) Drift(drifted bool) { d.change(func() { d.drifted = drifted }) }

// SetClockBack sets the host's clock back. Accounts that follow have earlier times.
func (d *DCM) SetClockBack(by time.Duration) { d.change(func() { d.version = d.version.Add(-by) }) }

// MissUses leaves the next n calls of UseFor unanswered.
func (d *DCM) MissUses(n int) { d.change(func() { d.missed = n }) }

// absent returns the error while the daemon does not answer.
func (d *DCM) absent(method string) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	missed := method == "UseFor" && d.missed > 0
	if missed {
		d.missed--
	}
	if d.away || missed {
		return &agent.Refusal{Name: agent.Failed, Reason: "dcm.service does not answer: the name has no owner", Hint: "systemctl start dcm", Undone: true}
	}
	return nil
}

// Uses counts the runs that changed something.
func (d *DCM) Uses() int {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.uses
}

// Partitions returns the number of partitions.
func (d *DCM) Partitions() int {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.mig != nil {
		return len(strings.Fields(strings.ReplaceAll(strings.Join(d.mig, " "), off, "whole")))
	}
	n := 0
	for _, m := range d.modes {
		n += parts(m.compute)
	}
	return n
}

func parts(compute string) int {
	return map[string]int{"SPX": 1, "DPX": 2, "QPX": 4, "CPX": 8}[compute]
}

// Account returns the current account.
func (d *DCM) Account(context.Context) (agent.Account, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	var a agent.Account
	switch {
	case d.starting:
		a.Version, a.Taken, a.Profile.Effective, a.Health.State = 1, d.version, d.effective, "starting"
		return a, nil
	case d.mig != nil:
		return d.h100(), nil
	}
	a.Version, a.Taken = 1, d.version
	a.Profile.Effective, a.Health.InSync, a.Health.State = d.effective, !d.drifted, "healthy"
	if d.running {
		a.Health.State = "changing"
	}
	for i, m := range d.modes {
		a.GPUs = append(a.GPUs, agent.GPU{Index: i, Address: Address(i), Vendor: "amd", Partitions: parts(m.compute)})
		a.GPUs[i].Mode.Compute, a.GPUs[i].Mode.Memory = m.compute, m.memory
	}
	return a, nil
}

// Follow calls each with the current account and every later one.
func (d *DCM) Follow(ctx context.Context, each func(agent.Account)) error {
	for {
		d.mu.Lock()
		changed := d.changed
		d.mu.Unlock()
		a, err := d.Account(ctx)
		if err != nil {
			return err
		}
		each(a)
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-changed:
		}
	}
}

// change calls f, and sends the account to the followers.
func (d *DCM) change(f func()) {
	d.mu.Lock()
	defer d.mu.Unlock()
	f()
	d.version = d.version.Add(time.Second)
	close(d.changed)
	d.changed = make(chan struct{})
}

// modes returns the modes of all GPUs in a profile of a config.json. A row without a number is for the
// remaining GPUs.
func modes(text, profile string) ([]mode, error) {
	var config struct {
		Profiles map[string]struct {
			Rows []struct {
				Compute string `json:"computePartition"`
				Memory  string `json:"memoryPartition"`
				Count   int    `json:"numGPUsAssigned"`
			} `json:"profiles"`
		} `json:"gpu-config-profiles"`
	}
	if err := json.Unmarshal([]byte(text), &config); err != nil {
		return nil, &agent.Refusal{Name: agent.InvalidConfiguration, Message: "config.json: " + err.Error()}
	}
	var out []mode
	for _, row := range config.Profiles[profile].Rows {
		n := GPUs - len(out)
		if row.Count > 0 {
			n = min(n, row.Count)
		}
		if parts(row.Compute) == 0 {
			return nil, &agent.Refusal{Name: agent.NoSuchProfile, Profile: profile, Message: row.Compute + " is no mode"}
		}
		out = append(out, slices.Repeat([]mode{{row.Compute, row.Memory}}, n)...)
	}
	if len(out) < GPUs {
		return nil, &agent.Refusal{Name: agent.NoSuchProfile, Profile: profile, Accepted: slices.Sorted(maps.Keys(config.Profiles))}
	}
	return out, nil
}

// PlanFor returns the plan of a profile.
func (d *DCM) PlanFor(_ context.Context, text, profile string) (agent.Plan, error) {
	if d.mig != nil {
		return d.planMIG(text, profile)
	}
	want, err := modes(text, profile)
	if err != nil {
		return agent.Plan{}, err
	}
	if err := d.absent("PlanFor"); err != nil {
		return agent.Plan{}, err
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	var plan agent.Plan
	for i, m := range d.modes {
		if m != want[i] {
			plan.Steps = append(plan.Steps, fmt.Sprintf("GPU %d from %s/%s to %s/%s", i, m.compute, m.memory, want[i].compute, want[i].memory))
			plan.GPUs = append(plan.GPUs, Address(i))
			plan.Reload = plan.Reload || m.memory != want[i].memory
		}
	}
	return plan, nil
}

// target returns what applies a profile, with the lock held, and reports whether it changed a GPU.
func (d *DCM) target(text, profile string) (func() bool, error) {
	if d.mig != nil {
		want, err := geometry(text, profile)
		return func() bool {
			changed := !slices.Equal(want, d.mig)
			d.mig = want
			return changed
		}, err
	}
	want, err := modes(text, profile)
	return func() bool {
		changed := !slices.Equal(want, d.modes)
		d.modes = want
		return changed
	}, err
}

// UseFor applies a profile. It continues if the caller disconnects.
func (d *DCM) UseFor(_ context.Context, text, profile string) (agent.Used, error) {
	use, err := d.target(text, profile)
	if err != nil {
		return agent.Used{}, err
	}
	if err := d.absent("UseFor"); err != nil {
		return agent.Used{}, err
	}
	d.change(func() { d.running = true })
	if d.Run != nil {
		d.Run()
	}
	var refused *agent.Refusal
	if d.Fail != nil {
		refused = d.Fail(profile)
	}
	d.change(func() {
		d.running = false
		if refused == nil {
			if use() {
				d.uses++
			}
			d.effective = profile
		}
	})
	if refused != nil {
		return agent.Used{}, refused
	}
	return agent.Used{Result: "applied", Summary: profile}, nil
}

// Serve serves the varlink interface until the listener is closed.
func (d *DCM) Serve(l net.Listener) {
	for {
		conn, err := l.Accept()
		if err != nil {
			return
		}
		go func() {
			defer conn.Close()
			d.answer(conn)
		}()
	}
}

func (d *DCM) answer(conn net.Conn) {
	from := bufio.NewReader(conn)
	for {
		message, err := from.ReadBytes(0)
		if err != nil {
			return
		}
		var call struct {
			Method     string
			More       bool
			Parameters struct{ Text, Profile string }
		}
		if json.Unmarshal(message[:len(message)-1], &call) != nil {
			return
		}
		ctx, p := context.Background(), call.Parameters
		switch strings.TrimPrefix(call.Method, "org.deviceconfig.Agent1.") {
		case "Account":
			if !call.More {
				a, err := d.Account(ctx)
				reply(conn, map[string]any{"account": a}, false, err)
				continue
			}
			ctx, cancel := context.WithCancel(ctx)
			go func() { from.ReadByte(); cancel() }()
			d.Follow(ctx, func(a agent.Account) { reply(conn, map[string]any{"account": a}, true, nil) })
			return
		case "PlanFor":
			plan, err := d.PlanFor(ctx, p.Text, p.Profile)
			reply(conn, plan, false, err)
		case "UseFor":
			used, err := d.UseFor(ctx, p.Text, p.Profile)
			reply(conn, used, false, err)
		default:
			reply(conn, nil, false, &agent.Refusal{Name: "org.varlink.service.MethodNotFound"})
		}
	}
}

func reply(to net.Conn, parameters any, continues bool, err error) {
	out := map[string]any{"parameters": parameters}
	if continues {
		out["continues"] = true
	}
	if refused, ok := err.(*agent.Refusal); ok {
		name := refused.Name
		if !strings.Contains(name, ".") {
			name = "org.deviceconfig.Agent1." + name
		}
		out["error"], out["parameters"] = name, refused
	}
	message, _ := json.Marshal(out)
	to.Write(append(message, 0))
}
