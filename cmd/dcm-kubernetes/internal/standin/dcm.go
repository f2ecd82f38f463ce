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
	compute   string
	memory    string
	effective string
	running   bool
	away      bool
	missed    int // calls of UseFor to leave unanswered
	uses      int
	version   time.Time
	changed   chan struct{}
}

// NewDCM returns a DCM with undivided GPUs.
func NewDCM() *DCM {
	return &DCM{compute: "SPX", memory: "NPS1", version: time.Unix(1, 0), changed: make(chan struct{})}
}

// Away stops or resumes the daemon's replies.
func (d *DCM) Away(away bool) { d.change(func() { d.away = away }) }

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
	return GPUs * parts(d.compute)
}

// Modes counts the partitions by mode, as an account does.
func (d *DCM) Modes() map[string]int {
	a, _ := d.Account(context.Background())
	return a.Partitions()
}

func parts(compute string) int {
	return map[string]int{"SPX": 1, "DPX": 2, "QPX": 4, "CPX": 8}[compute]
}

// Account returns the current account.
func (d *DCM) Account(context.Context) (agent.Account, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.mig != nil {
		return d.h100(), nil
	}
	var a agent.Account
	a.Version, a.Taken = 1, d.version
	a.Profile.Effective, a.Health.InSync, a.Health.State = d.effective, true, "healthy"
	if d.running {
		a.Health.State = "changing"
	}
	for i := range GPUs {
		a.GPUs = append(a.GPUs, agent.GPU{Index: i, Address: Address(i), Vendor: "amd", Partitions: parts(d.compute)})
		a.GPUs[i].Mode.Compute, a.GPUs[i].Mode.Memory = d.compute, d.memory
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

// mode returns the mode of a profile in a config.json. Each profile is one line.
func mode(text, profile string) (compute, memory string, err error) {
	var config struct {
		Profiles map[string]struct {
			Rows []struct {
				Compute string `json:"computePartition"`
				Memory  string `json:"memoryPartition"`
			} `json:"profiles"`
		} `json:"gpu-config-profiles"`
	}
	if err := json.Unmarshal([]byte(text), &config); err != nil {
		return "", "", &agent.Refusal{Name: agent.InvalidConfiguration, Message: "config.json: " + err.Error()}
	}
	p, ok := config.Profiles[profile]
	if !ok || len(p.Rows) == 0 || parts(p.Rows[0].Compute) == 0 {
		return "", "", &agent.Refusal{Name: agent.NoSuchProfile, Profile: profile, Accepted: slices.Sorted(maps.Keys(config.Profiles))}
	}
	return p.Rows[0].Compute, p.Rows[0].Memory, nil
}

// PlanFor returns the plan of a profile.
func (d *DCM) PlanFor(_ context.Context, text, profile string) (agent.Plan, error) {
	if d.mig != nil {
		return d.planMIG(text, profile)
	}
	compute, memory, err := mode(text, profile)
	if err != nil {
		return agent.Plan{}, err
	}
	if err := d.absent("PlanFor"); err != nil {
		return agent.Plan{}, err
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	plan := agent.Plan{Reload: memory != d.memory}
	if compute != d.compute || memory != d.memory {
		plan.Steps = []string{fmt.Sprintf("%s/%s to %s/%s", d.compute, d.memory, compute, memory)}
		for i := range GPUs {
			plan.GPUs = append(plan.GPUs, Address(i))
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
	compute, memory, err := mode(text, profile)
	return func() bool {
		changed := compute != d.compute || memory != d.memory
		d.compute, d.memory = compute, memory
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
