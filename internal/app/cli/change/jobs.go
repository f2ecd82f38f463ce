package change

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"dcm/internal/app/cli/client"
	"dcm/internal/app/cli/console"
	"dcm/internal/app/plan"
	"dcm/internal/engine/apply"
	"dcm/internal/engine/config"
	"dcm/internal/engine/host"
	"dcm/internal/exitcode"
	"dcm/internal/gpu/partition"
)

// Scheduler is a batch system that gives partitions of this host to jobs.
type Scheduler interface {
	// Allocated returns the partitions that jobs have, by GPU.
	Allocated(ctx context.Context) (map[partition.Address][]string, error)
	// Pause makes the batch system start no job on this host until resume is called.
	Pause(ctx context.Context, log func(string)) (resume func(context.Context) error, err error)
}

// jobCheck keeps a command from a change of GPUs that jobs have. A job that has not opened its GPU yet blocks
// no change by itself.
type jobCheck struct {
	host *host.Host
	con  *console.Console
	jobs Scheduler
}

// jobsInterval is the interval between queries of the batch system, which sends no events.
const jobsInterval = 3 * time.Second

// profile returns the profile that a command applies; nothing if it applies the selected one.
func (c jobCheck) profile(given []string, clearing bool) []string {
	if !clearing {
		return given
	}
	cfg, err := c.host.Config()
	if err != nil {
		return nil // the command reports the error
	}
	return []string{config.OrNone(cfg.Persistent)}
}

// refuse returns an error if jobs have partitions of GPUs that the profile changes. Without a profile
// it checks the selected one.
func (c jobCheck) refuse(ctx context.Context, profile ...string) error {
	used := c.blocking(ctx, profile...)
	if len(used) == 0 {
		return nil
	}
	return exitcode.With(exitcode.Transient, fmt.Errorf("nothing was changed: jobs have partitions of GPUs that change: %s\nhint: drain the node, or wait with dcm apply PROFILE --when-idle", shortened(used)))
}

// await waits until no job has a partition of a GPU that changes. The batch system starts no job on this host
// until resume is called.
func (c jobCheck) await(ctx context.Context, profile ...string) (resume func(), err error) {
	used := c.blocking(ctx, profile...)
	if len(used) == 0 {
		return func() {}, nil
	}
	again, err := c.jobs.Pause(ctx, c.con.Println)
	if err != nil {
		return nil, fmt.Errorf("nothing was changed: %w", err)
	}
	resume = func() {
		if err := again(context.WithoutCancel(ctx)); err != nil {
			c.con.Warn(err.Error())
		}
	}
	tick := time.NewTicker(jobsInterval)
	defer tick.Stop()
	for reported := ""; len(used) > 0; used = c.blocking(ctx, profile...) {
		if text := shortened(used); text != reported {
			c.con.Println("Waiting for the end of the jobs with " + text + ".")
			reported = text
		}
		select {
		case <-ctx.Done():
			resume()
			return nil, errors.New("nothing was changed: interrupted while waiting for jobs")
		case <-tick.C:
		}
	}
	return resume, nil
}

// blocking returns the partitions that jobs have on GPUs that the profile changes. If the batch system does not
// answer, blocking warns and returns none.
func (c jobCheck) blocking(ctx context.Context, profile ...string) []string {
	used, err := c.jobs.Allocated(ctx)
	if err != nil && ctx.Err() == nil {
		c.con.Warn("cannot check which GPUs jobs have: " + err.Error())
	}
	if len(used) == 0 {
		return nil
	}
	_, d, _, err := plan.Compare(ctx, c.host, client.FromDaemon(c.host), profile...)
	if err != nil {
		return nil // the command reports the error
	}
	return changed(d, used)
}

// changed returns those partitions whose GPUs the plan changes.
func changed(d apply.Difference, used map[partition.Address][]string) []string {
	if len(d.Steps) == 0 {
		return nil
	}
	kept := make(map[partition.Address]bool)
	if d.SingleGPUs() {
		for gpu := range used {
			kept[gpu] = true
		}
		for _, c := range d.Steps.Changes(d.GPUs) {
			kept[c.GPU] = kept[c.GPU] && c.KeepsUsers
		}
	}
	var out []string
	for _, gpu := range slices.Sorted(maps.Keys(used)) {
		if !kept[gpu] {
			out = append(out, used[gpu]...)
		}
	}
	return out
}

// mostNamed is the number of partitions that a message names.
const mostNamed = 4

func shortened(names []string) string {
	if more := len(names) - mostNamed; more > 0 {
		return fmt.Sprintf("%s and %d more", strings.Join(names[:mostNamed], ", "), more)
	}
	return strings.Join(names, ", ")
}
