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

// scontrolTimeout limits a call of scontrol. scontrol itself retries for about as long if slurmctld
// does not answer.
const scontrolTimeout = time.Minute

// slurmdTimeout limits the time that slurmd takes to report a failed helper, or to register.
const slurmdTimeout = time.Minute

// Scontrol runs scontrol(1) from PATH and returns its standard output.
func Scontrol(ctx context.Context, args ...string) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, scontrolTimeout)
	defer cancel()
	var stdout, stderr bytes.Buffer
	cmd := exec.CommandContext(ctx, "scontrol", args...)
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	err := cmd.Run()
	if err == nil {
		return stdout.String(), nil
	}
	// scontrol prints some errors to standard output.
	if text := strings.TrimSpace(stderr.String() + stdout.String()); text != "" {
		err = errors.New(sanitize.Text(text))
	}
	return "", fmt.Errorf("scontrol: %w", err)
}

// Controller reads and changes slurmctld's record of one node.
type Controller struct {
	NodeName string
	Run      func(ctx context.Context, args ...string) (string, error) // [Scontrol]
}

// Node returns the node's record.
func (c Controller) Node(ctx context.Context) (Node, error) {
	text, err := c.Run(ctx, "--oneliner", "show", "node", c.NodeName)
	if err != nil {
		return Node{}, fmt.Errorf("cannot read the record of node %s from slurmctld: %w", c.NodeName, err)
	}
	return ParseNode(text), nil
}

// Activate sets the active features.
func (c Controller) Activate(ctx context.Context, features []string) error {
	return c.update(ctx, "ActiveFeatures="+strings.Join(features, ","))
}

func (c Controller) update(ctx context.Context, settings ...string) error {
	if _, err := c.Run(ctx, append([]string{"update", "NodeName=" + c.NodeName}, settings...)...); err != nil {
		return fmt.Errorf("cannot update node %s in slurmctld: %w", c.NodeName, err)
	}
	return nil
}

// pollInterval is the interval between queries of slurmctld, which sends no events to dcm.
const pollInterval = 500 * time.Millisecond

// Await queries the node's record until done returns true or ctx ends. It returns the last
// record.
func (c Controller) Await(ctx context.Context, done func(Node) bool) (Node, error) {
	tick := time.NewTicker(pollInterval)
	defer tick.Stop()
	for {
		n, err := c.Node(ctx)
		if err != nil || done(n) {
			return n, err
		}
		select {
		case <-ctx.Done():
			return n, ctx.Err()
		case <-tick.C:
		}
	}
}
