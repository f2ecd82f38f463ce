package slurm

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"dcm/internal/sanitize"
)

// Unconfined returns the value of TaskPlugin if Slurm gives GPUs to jobs and has no task/cgroup, otherwise "". Then
// ConstrainDevices has no effect (cgroup.conf(5)): a job can open all partitions.
func (c Controller) Unconfined(ctx context.Context) (string, error) {
	text, err := c.Run(ctx, "show", "config")
	if err != nil {
		return "", fmt.Errorf("cannot read the configuration from slurmctld: %w", err)
	}
	settings := make(map[string]string)
	for line := range strings.Lines(text) {
		if key, value, ok := strings.Cut(line, "="); ok {
			settings[strings.TrimSpace(key)] = strings.TrimSpace(value)
		}
	}
	plugin := settings["TaskPlugin"]
	if !slices.Contains(list(settings["GresTypes"]), "gpu") || plugin == "" || slices.Contains(list(plugin), "task/cgroup") {
		return "", nil
	}
	return sanitize.Text(plugin), nil
}
