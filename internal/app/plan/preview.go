package plan

import (
	"context"

	"dcm/internal/engine/apply"
	"dcm/internal/engine/config"
	"dcm/internal/engine/daemon"
	"dcm/internal/engine/host"
	"dcm/internal/engine/runstate"
	"dcm/internal/gpu"
	"dcm/internal/gpu/partition"
	"dcm/internal/leases/reservation"
)

// Preview is what a change to a profile would do now. Its JSON is a part of dcm plan --json.
type Preview struct {
	Profile string              `json:"profile"`
	Steps   []partition.Step    `json:"steps"`
	Clients []string            `json:"clients"`         // the units that would be restarted
	Reload  bool                `json:"reload"`          // the driver would be reloaded: no GPU of the node can be used meanwhile
	Holders []runstate.Holder   `json:"holders"`         // processes that block the change, without those of clients
	Left    []partition.Address `json:"left"`            // GPUs that would stay as they are, since the holders block them and no other
	Rounds  []daemon.Round      `json:"rounds"`          // in which the GPUs change, as budgets permit; empty: all together
	Waits   *runstate.Error     `json:"waits,omitempty"` // why the first or a later round would wait for units that are down
	Refused *runstate.Error     `json:"refused,omitempty"`
}

// NewPreview returns a preview without steps, whose lists are empty in JSON, not null.
func NewPreview(profile string) Preview {
	return Preview{Profile: profile, Steps: []partition.Step{}, Clients: []string{}, Holders: []runstate.Holder{}, Left: []partition.Address{}, Rounds: []daemon.Round{}}
}

// Add adds the steps of a difference.
func (p *Preview) Add(d apply.Difference) {
	p.Steps, p.Reload = append(p.Steps, d.Steps...), d.Steps.Reloads()
}

// Judge adds what the daemon would do before the run, and whether it would refuse the run.
func (p *Preview) Judge(cfg *config.Config, d apply.Difference, f daemon.Forecast) {
	p.Clients, p.Holders = append(p.Clients, f.Restarted...), append(p.Holders, f.Holders...)
	p.Left = append(p.Left, f.Left...)
	p.Rounds, p.Waits = append(p.Rounds, f.Rounds...), f.Waits
	if p.Refused = d.Refusal(cfg.ReloadDriver, nil); p.Refused == nil {
		p.Refused = f.Refused
	}
}

// Outlook is an entry of the D-Bus method Plans.
type Outlook struct {
	Preview
	GPUs  []PlannedGPU    `json:"gpus"`            // those that the steps change, as they would be
	Error *runstate.Error `json:"error,omitempty"` // why the GPUs do not support the profile; there are no steps then
}

// PlannedGPU is a GPU as it would be after a change.
type PlannedGPU struct {
	Address    partition.Address `json:"address"`
	Mode       string            `json:"mode"` // "CPX/NPS4", "3g.40gb, 2 × 2g.20gb"
	Partitions int               `json:"partitions"`
}

// Outlooks plans every profile that can be selected for the GPUs. It reads the GPUs and the processes
// that have them open once, and uses one connection to PID 1.
func Outlooks(ctx context.Context, h *host.Host, cfg *config.Config, node *gpu.Node) ([]Outlook, error) {
	out := []Outlook{}
	devices, err := node.Devices(ctx)
	if err != nil {
		return nil, err
	}
	if len(gpu.Partitionable(devices)) == 0 {
		return out, nil
	}
	use, err := node.Usage(ctx)
	if err != nil {
		return nil, err
	}
	conn, err := h.Dial(ctx)
	if err != nil {
		return nil, err
	}
	defer conn.Close()
	o := outlooker{host: h, cfg: cfg, devices: devices, use: use, foresee: func(d apply.Difference, blocking []runstate.Holder) (daemon.Forecast, error) {
		return foresee(ctx, h, daemon.PID1Of(conn), cfg, d, blocking)
	}}
	for _, name := range cfg.Available(gpu.Partitionable(devices)) {
		next, err := o.of(name)
		if err != nil {
			return nil, err
		}
		out = append(out, next)
	}
	return out, nil
}

// outlooker plans profiles for one state of the host.
type outlooker struct {
	host    *host.Host
	cfg     *config.Config
	devices []gpu.Device
	use     gpu.Usage
	foresee func(d apply.Difference, blocking []runstate.Holder) (daemon.Forecast, error)
}

// of plans one profile. An error means that PID 1 did not answer.
func (o outlooker) of(profile string) (Outlook, error) {
	out := Outlook{Preview: NewPreview(profile), GPUs: []PlannedGPU{}}
	d, err := o.compare(profile)
	if err != nil {
		out.Error = new(apply.Explain(err))
		return out, nil
	}
	if len(d.Steps) == 0 {
		return out, nil
	}
	out.Add(d)
	for i, after := range partition.Forecast(d.GPUs, d.Steps) {
		if after.Shape().Key() != d.GPUs[i].Shape().Key() {
			out.GPUs = append(out.GPUs, PlannedGPU{Address: after.Address, Mode: after.Shape().String(), Partitions: after.Partitions()})
		}
	}
	blocking, unsure := d.Blockers(o.use)
	f, err := o.foresee(d, blocking)
	if err != nil {
		return out, err
	}
	out.Judge(o.cfg, d, f)
	if out.Refused == nil && unsure != nil {
		out.Refused = new(apply.Explain(unsure))
	}
	return out, nil
}

// compare returns the steps to a profile, or why the GPUs do not support it.
func (o outlooker) compare(profile string) (apply.Difference, error) {
	p, err := o.cfg.Lookup(profile)
	if err != nil {
		return apply.Difference{}, err
	}
	d, err := apply.Compare(o.devices, p)
	if err != nil || len(d.Steps) == 0 {
		return d, err
	}
	if err := d.Judge(reservation.Fits(o.host, o.cfg.Reservations)); err != nil {
		return d, err
	}
	return WithInstances(o.host, o.cfg, d, apply.Holders(o.use.Holders))
}
