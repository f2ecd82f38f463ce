package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"slices"
	"strconv"
	"time"

	"dcm/internal/amdgpu"
	"dcm/internal/apply"
	"dcm/internal/config"
	"dcm/internal/daemon"
	"dcm/internal/partition"
	"dcm/internal/report"
	"dcm/internal/systemd"
)

// overview is what `dcm status` tells, gathered from what can be seen now: the
// configuration, the GPUs, the units, and the two reports.
type overview struct {
	Version  string          `json:"version"`
	Profile  string          `json:"profile"`
	Source   string          `json:"source,omitempty"`
	Runtime  bool            `json:"until_reboot,omitempty"`
	Applied  bool            `json:"applied"` // the GPUs are as selected
	Phase    report.Phase    `json:"phase,omitempty"`
	Units    []unitView      `json:"units,omitempty"`
	GPUs     []gpuView       `json:"gpus"`
	Clients  []report.Client `json:"clients,omitempty"`
	Run      *report.Run     `json:"last_run,omitempty"`
	Problems []report.Error  `json:"problems,omitempty"`
	Warnings []string        `json:"warnings,omitempty"`
	state    *report.State
	killed   bool // the last run ended without a word
}

type unitView struct {
	Unit   string `json:"unit"`
	Active string `json:"active"`
	Sub    string `json:"sub"`
	Result string `json:"result,omitempty"`
}

type gpuView struct {
	Index      int               `json:"index"` // among the partitionable ones; -1 for the others
	Address    partition.Address `json:"address"`
	Model      string            `json:"model"`
	Mode       partition.Mode    `json:"mode"`
	Partitions int               `json:"partitions"`
	Want       partition.Mode    `json:"want,omitzero"`
	Skipped    bool              `json:"skipped,omitempty"`
	Why        string            `json:"why,omitempty"` // it is not touched
}

// dialTimeout keeps a look from waiting for a bus that does not answer.
const dialTimeout = 3 * time.Second

func look(ctx context.Context, h *host) *overview {
	o := &overview{Version: version}
	o.reports(ctx, h)
	cfg, err := h.config()
	if err != nil {
		o.problem(report.Error{Text: err.Error(), Cure: "dcm keeps to the last configuration that was in order; repair the file"})
	} else {
		o.Profile, o.Source, o.Warnings = cfg.Selected, cfg.Source, cfg.Warnings
		o.Runtime = h.runtimeSelection(cfg)
	}
	o.advice()
	o.gpus(ctx, h, cfg)
	o.units(ctx, h, cfg)
	return o
}

func (o *overview) problem(e report.Error) {
	for _, p := range o.Problems {
		if p.Text == e.Text {
			return
		}
	}
	o.Problems = append(o.Problems, e)
}

// reports reads what the oneshot and the daemon have left.
func (o *overview) reports(ctx context.Context, h *host) {
	var err error
	if o.Run, err = report.ReadRun(h.runtime()); err != nil {
		o.problem(report.Error{Text: err.Error()})
	}
	if o.Run != nil && o.Run.Result == report.Running {
		_, err := os.Stat(h.path("proc", strconv.Itoa(o.Run.PID)))
		o.killed = errors.Is(err, fs.ErrNotExist)
	}
	if o.state, err = h.daemonState(ctx); err != nil {
		o.problem(report.Error{Text: err.Error()})
	}
	if o.state == nil {
		return
	}
	o.Phase, o.Clients = o.state.Phase, o.state.Clients
	if o.state.Error != nil {
		o.problem(*o.state.Error)
	}
}

// advice adds what the daemon warns of beside the configuration's own warnings.
func (o *overview) advice() {
	if o.state == nil {
		return
	}
	for _, w := range o.state.Warnings {
		if !slices.Contains(o.Warnings, w) {
			o.Warnings = append(o.Warnings, w)
		}
	}
}

// gpus compares the GPUs with the selected profile.
func (o *overview) gpus(ctx context.Context, h *host, cfg *config.Config) {
	devices, err := h.node(cfg).Devices(ctx)
	if err != nil {
		o.problem(report.Error{Text: err.Error(), Cure: amdgpu.Cure(err)})
	}
	var d apply.Difference
	switch {
	case cfg == nil:
	case cfg.Selected == "":
		o.Applied = true // nothing is asked for
	default:
		d, err = apply.Compare(devices, cfg.Profile)
		if err != nil {
			o.problem(apply.Explain(err))
		}
		o.Applied = err == nil && len(d.Steps) == 0
	}
	o.GPUs = gpuViews(devices, d.Want)
}

func gpuViews(devices []amdgpu.Device, want partition.Layout) []gpuView {
	var out []gpuView
	index := 0
	for _, dev := range devices {
		v := gpuView{
			Index: -1, Address: dev.Address, Model: dev.Model, Mode: dev.Mode(),
			Want: want.Modes[dev.Address], Skipped: want.Skipped[dev.Address], Why: dev.Why,
		}
		if dev.Why == "" {
			v.Index, v.Partitions = index, dev.Partitions()
			index++
		}
		out = append(out, v)
	}
	return out
}

// units asks systemd how the units are now. Without it, which is so in a chroot
// and for another tree, the reports have to do.
func (o *overview) units(ctx context.Context, h *host, cfg *config.Config) {
	if h.root != "/" {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, dialTimeout)
	defer cancel()
	conn, err := h.dial(ctx)
	if err != nil {
		o.Warnings = append(o.Warnings, fmt.Sprintf("systemd cannot be asked for the units' states: %v", err))
		return
	}
	defer conn.Close()
	own, err := conn.Units(ctx, []string{daemon.Unit, daemon.ApplyUnit})
	if err != nil {
		o.problem(report.Error{Text: err.Error()})
		return
	}
	for _, u := range own {
		o.Units = append(o.Units, unitView{u.Name, u.Active, u.Sub, u.Result})
	}
	if cfg == nil || len(h.clients(cfg)) == 0 {
		return
	}
	now, err := conn.Units(ctx, h.clients(cfg))
	if err != nil {
		o.problem(report.Error{Text: err.Error()})
		return
	}
	o.clients(now)
}

// clients puts the states seen now beside those of the last restart.
func (o *overview) clients(now []systemd.Unit) {
	before := make(map[string]report.Client)
	for _, c := range o.Clients {
		before[c.Unit] = c
	}
	o.Clients = nil
	for _, u := range now {
		c := report.Client{Unit: u.Name, Before: before[u.Name].Before, Now: u.Active, Sub: u.Sub, Result: u.Result, Restarts: u.Restarts, Back: true}
		if u.Load == "not-found" {
			c.Now, c.Sub = u.Load, ""
		}
		if was := before[u.Name]; was.Unit != "" && !was.Back && u.Active != "active" {
			c.Back = false
		}
		o.Clients = append(o.Clients, c)
	}
}

// dial reaches systemd, but never on behalf of another tree.
func (h *host) dial(ctx context.Context) (*systemd.Conn, error) {
	if h.root != "/" {
		return nil, errors.New("not for another root directory")
	}
	return systemd.Dial(ctx)
}
