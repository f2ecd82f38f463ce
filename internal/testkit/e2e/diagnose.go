package e2e

import (
	"context"
	"fmt"
	"io"
)

// Diagnose writes the state of the container after a failure: units, files of dcm, simulated
// node, journal. Commands that fail are left out.
func (c *Container) Diagnose(ctx context.Context, w io.Writer) {
	for _, script := range []string{
		"systemctl list-jobs --no-pager",
		"systemctl list-units --failed --no-legend --no-pager",
		"systemctl status --no-pager --lines=0 'dcm*' gpuagent amd-metrics-exporter",
		"head -c 20000 /run/dcm/*.json /etc/dcm/dcm.toml.d/* /run/dcm/dcm.toml.d/*",
		"dcm-sim state",
		"journalctl --boot --no-pager --no-hostname --output=short-monotonic --lines=200",
	} {
		r, err := c.Run(ctx, "sh", "-c", script+" 2>&1")
		fmt.Fprintf(w, "---- %s\n%s", script, r.Stdout)
		if err != nil {
			fmt.Fprintf(w, "---- %v\n%s", err, c.Console())
			return
		}
	}
}
