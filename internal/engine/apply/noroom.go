package apply

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	"dcm/internal/engine/runstate"
	"dcm/internal/gpu"
	"dcm/internal/gpu/partition"
)

// noRoom judges an error of a batch. It returns nil if the driver only has no room for new MIG instances
// next to those that stay, and these have no user: the next plan destroys them too. If they have users,
// the error names them. In both cases the report has the GPUs, so that the plan of the next run keeps
// none of their instances. first is the number of steps that had begun before the batch.
func (r *run) noRoom(ctx context.Context, want partition.Layout, batch partition.Steps, first int, err error) error {
	full := gpu.NoRoom(err)
	var steps partition.Steps
	for _, a := range failed(r.rec.Run().Steps, first) {
		i := slices.IndexFunc(batch, func(s partition.Step) bool { return s.GPU == a })
		if !slices.Contains(full, a) || batch[i].Kept == nil || !want.Shapes[a].Same(r.difference.Want.Shapes[a]) {
			return err // another error, or of the undo
		}
		steps = append(steps, batch[i])
	}
	if len(steps) == 0 {
		return err
	}
	u, unread := r.node.Use.Usage(context.WithoutCancel(ctx))
	if unread != nil {
		return err
	}
	var users []string
	for _, s := range steps {
		r.rec.record(func(run *runstate.Run) {
			run.NoRoom = maps.Clone(run.NoRoom)
			if run.NoRoom == nil {
				run.NoRoom = make(map[partition.Address]partition.Shape)
			}
			run.NoRoom[s.GPU] = want.Shapes[s.GPU]
		})
		users = append(users, r.usersOf(s, u)...)
	}
	if len(users) > 0 {
		names := strings.Join(users, ", ")
		return &refusal{err: fmt.Errorf("%w; the instances that stay cannot be destroyed now, since %s uses them", err, names),
			hint: "the next run destroys them too: dcm then restarts these services, or waits for the end of a lease or process", transient: true}
	}
	for _, s := range steps {
		r.rec.Warn(fmt.Sprintf("no room to %s: destroying all instances of the GPU, since nothing uses them", s))
	}
	return nil
}

// usersOf returns the users of the instances that stay in a step: those that the change does not stop,
// and processes.
func (r *run) usersOf(s partition.Step, u gpu.Usage) []string {
	var out []string
	for _, i := range s.Kept.Instances {
		for _, user := range r.opt.Users[s.GPU][i.Start] {
			if slices.Contains(r.opt.Continuing, user.Name) && !slices.Contains(out, user.Name) {
				out = append(out, user.Name)
			}
		}
	}
	clear := partition.Steps{{Kind: partition.DestroyInstances, GPU: s.GPU}}
	for _, h := range Holders(gpu.Blockers(clear, r.difference.Devices, u.Holders)) {
		if h.Unit == "" || !slices.Contains(out, h.Unit) {
			out = append(out, h.String())
		}
	}
	return out
}
