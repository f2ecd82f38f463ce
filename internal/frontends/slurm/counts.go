package slurm

import (
	"context"
	"errors"
	"regexp"
	"slices"
	"strings"
	"time"
)

// Errors after which no job can use a GPU.
var (
	ErrNoPartition = errors.New("no partition has a device node of its own")
	ErrUnread      = errors.New("cannot read the GPUs")
)

// otherCounts begins the reason of a node for which slurm.conf has other GPUs.
const otherCounts = "slurm.conf needs Gres="

// liftedReasons begin the reasons that end when slurmctld has the counts of the partitions: those of dcm, and the
// one that slurmctld sets when a change has left fewer partitions.
var liftedReasons = []string{Mark + otherCounts, Mark + ErrNoPartition.Error(), Mark + ErrUnread.Error(), "gres/gpu count reported"}

// gresTimeout limits the time that slurmd takes to register after its reload. Until then slurmctld has the counts
// of the last registration.
const gresTimeout = 10 * time.Second

// CheckGres drains the node if slurmctld has other GPUs for it than g. It resumes a node that is drained for
// its GPUs only, when slurmctld has the counts of g. Otherwise the administrator must change slurm.conf.
func (c Controller) CheckGres(ctx context.Context, g Gres, log func(string)) error {
	right := func(n Node) bool { return !n.Invalid() && slices.Equal(gpus(n.Gres), gpus(g.Counts())) }
	n, err := c.Node(ctx)
	if err == nil && !right(n) {
		if _, err = c.DrainFor(ctx, Mark+otherCounts+g.Counts(), log); err != nil {
			return err
		}
		waiting, cancel := context.WithTimeout(ctx, gresTimeout)
		defer cancel()
		n, err = c.Await(waiting, right)
		if waiting.Err() != nil && ctx.Err() == nil {
			return nil
		}
	}
	if err != nil || !n.Drained() || !slices.ContainsFunc(liftedReasons, func(p string) bool { return strings.HasPrefix(n.Reason, p) }) {
		return err
	}
	return c.ResumeFrom(ctx, n.Reason, "slurm.conf has the GPUs of the node", log)
}

// sockets matches what slurmctld appends to a GRES: the sockets of its cores.
var sockets = regexp.MustCompile(`\([^)]*\)`)

// gpus returns the GRES of GPUs in ascending order.
func gpus(gres string) []string {
	all := slices.DeleteFunc(list(sockets.ReplaceAllString(gres, "")), func(g string) bool { return !strings.HasPrefix(g, "gpu:") })
	slices.Sort(all)
	return all
}
