package slurm

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os/exec"
	"strings"
	"time"

	"dcm/internal/sanitize"
)

// answerTime is what scontrol has: it tries a slurmctld that is away for as long itself.
const answerTime = time.Minute

// Scontrol runs scontrol(1), as it is found in PATH, and returns what it prints.
func Scontrol(ctx context.Context, args ...string) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, answerTime)
	defer cancel()
	var out, complaint bytes.Buffer
	cmd := exec.CommandContext(ctx, "scontrol", args...)
	cmd.Stdout, cmd.Stderr = &out, &complaint
	err := cmd.Run()
	if err == nil {
		return out.String(), nil
	}
	// Some of what goes wrong it tells on standard output.
	if said := strings.TrimSpace(complaint.String() + out.String()); said != "" {
		err = errors.New(sanitize.Text(said))
	}
	return "", fmt.Errorf("scontrol: %w", err)
}

// Controller is slurmctld, as far as one node is concerned.
type Controller struct {
	Node string
	Run  func(ctx context.Context, args ...string) (string, error) // [Scontrol]
}

// Look returns the node's record.
func (c Controller) Look(ctx context.Context) (Node, error) {
	text, err := c.Run(ctx, "--oneliner", "show", "node", c.Node)
	if err != nil {
		return Node{}, fmt.Errorf("cannot ask slurmctld about %s: %w", c.Node, err)
	}
	return ParseNode(text), nil
}

// Activate has slurmctld take these for the active ones of the features that change.
func (c Controller) Activate(ctx context.Context, features []string) error {
	return c.update(ctx, "ActiveFeatures="+strings.Join(features, ","))
}

// Drain keeps jobs away from the node and says why.
func (c Controller) Drain(ctx context.Context, reason string) error {
	return c.update(ctx, "State=DRAIN", "Reason="+sanitize.Text(reason))
}

func (c Controller) update(ctx context.Context, settings ...string) error {
	if _, err := c.Run(ctx, append([]string{"update", "NodeName=" + c.Node}, settings...)...); err != nil {
		return fmt.Errorf("cannot tell slurmctld about %s: %w", c.Node, err)
	}
	return nil
}

// again is how often slurmctld is asked while slurmd is about to tell it something. It
// has no events for others than its own programs.
const again = 500 * time.Millisecond

// Until asks for the node's record until it is as said, or ctx ends, and returns it as it
// was last seen.
func (c Controller) Until(ctx context.Context, so func(Node) bool) (Node, error) {
	tick := time.NewTicker(again)
	defer tick.Stop()
	for {
		n, err := c.Look(ctx)
		if err != nil || so(n) {
			return n, err
		}
		select {
		case <-ctx.Done():
			return n, ctx.Err()
		case <-tick.C:
		}
	}
}
