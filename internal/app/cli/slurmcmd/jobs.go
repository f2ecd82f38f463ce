package slurmcmd

import (
	"context"
	"os/exec"
	"slices"

	"dcm/internal/app/cli/change"
	"dcm/internal/engine/host"
	"dcm/internal/frontends/slurm"
	"dcm/internal/gpu/partition"
	"dcm/internal/linux/systemd"
)

// Scheduler is Slurm as the batch system of this host.
type Scheduler struct{ Host *host.Host }

var _ change.Scheduler = Scheduler{}

// Allocated returns the partitions that slurmctld has given to jobs, by GPU. It returns none if slurmd does not
// run on this host, or if Slurm has none of its GPUs.
func (s Scheduler) Allocated(ctx context.Context) (map[partition.Address][]string, error) {
	out := make(map[partition.Address][]string)
	if !s.runs(ctx) {
		return out, nil
	}
	i, err := read(ctx, s.Host)
	if err != nil {
		return nil, err
	}
	if i.pool, err = lastPool(s.Host); err != nil {
		return nil, err
	}
	used, _, err := s.controller(ctx).Allocated(ctx, i.gres())
	for _, p := range i.account.Parts {
		if slices.ContainsFunc(used, func(d slurm.Device) bool { return d.Part == p.Name }) {
			out[partition.Address(p.GPU)] = append(out[partition.Address(p.GPU)], p.Name)
		}
	}
	return out, err
}

// pausedFor is the reason of a node that dcm drains until the jobs on its GPUs have ended.
const pausedFor = slurm.Mark + "waits for the jobs on GPUs that change"

// Pause drains the node, so that it gets no job, and returns the function that resumes it.
func (s Scheduler) Pause(ctx context.Context, log func(string)) (resume func(context.Context) error, err error) {
	c := s.controller(ctx)
	drained, err := c.DrainFor(ctx, pausedFor, log)
	if err != nil || !drained {
		return func(context.Context) error { return nil }, err
	}
	return func(ctx context.Context) error {
		return c.ResumeFrom(ctx, pausedFor, "the wait for its jobs has ended", log)
	}, nil
}

func (s Scheduler) controller(ctx context.Context) slurm.Controller {
	return slurm.Controller{NodeName: nodeName(ctx, s.Host), Run: slurm.Scontrol}
}

// runs reports whether this host is a node of Slurm.
func (s Scheduler) runs(ctx context.Context) bool {
	if _, err := exec.LookPath("scontrol"); err != nil || !s.Host.Here() {
		return false
	}
	conn, err := s.Host.Dial(ctx)
	if err != nil {
		return false
	}
	defer conn.Close()
	units, err := conn.Units.List(ctx, []string{"slurmd.service"}, systemd.All)
	return err == nil && len(units) == 1 && units[0].Active == "active"
}

// Unconfined returns the value of TaskPlugin if Slurm gives GPUs of this host to jobs without confinement,
// otherwise "".
func (s Scheduler) Unconfined(ctx context.Context) (string, error) {
	if !s.runs(ctx) {
		return "", nil
	}
	return slurm.Controller{Run: slurm.Scontrol}.Unconfined(ctx)
}
