package cli

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"slices"
	"strconv"

	"dcm/internal/amdgpu"
	"dcm/internal/apply"
	"dcm/internal/config"
	"dcm/internal/daemon"
	"dcm/internal/host"
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
	GPUs     []host.View     `json:"gpus"`
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

func look(ctx context.Context, h *host.Host) *overview {
	o := &overview{Version: h.Version}
	o.reports(ctx, h)
	cfg, err := h.Config()
	if err != nil {
		o.problem(report.Error{Text: err.Error(), Cure: "dcm keeps to the last configuration that was in order; repair the file"})
	} else {
		o.Profile, o.Source, o.Warnings = cfg.Selected, cfg.Source, cfg.Warnings
		o.Runtime = h.UntilReboot(cfg)
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
func (o *overview) reports(ctx context.Context, h *host.Host) {
	var err error
	if o.Run, err = report.ReadRun(h.Runtime()); err != nil {
		o.problem(report.Error{Text: err.Error()})
	}
	if o.Run != nil && o.Run.Result == report.Running {
		_, err := os.Stat(h.Path("proc", strconv.Itoa(o.Run.PID)))
		o.killed = errors.Is(err, fs.ErrNotExist)
	}
	if o.state, err = daemonState(ctx, h); err != nil {
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
func (o *overview) gpus(ctx context.Context, h *host.Host, cfg *config.Config) {
	devices, err := h.Node(cfg).Devices(ctx)
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
	o.GPUs = host.Views(devices, d.Want)
}

// units asks systemd how the units are now. Without it, which is so in a chroot
// and for another tree, the reports have to do.
func (o *overview) units(ctx context.Context, h *host.Host, cfg *config.Config) {
	if !h.Here() {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, host.DialTimeout)
	defer cancel()
	conn, err := h.Dial(ctx)
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
	if cfg == nil || len(h.Clients(cfg)) == 0 {
		return
	}
	now, err := conn.Units(ctx, h.Clients(cfg))
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
