package query

import (
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"dcm/internal/app/cli/console"
	"dcm/internal/engine/config"
	"dcm/internal/engine/host"
	"dcm/internal/gpu/record"
	"dcm/internal/linux/atomicfile"
	"dcm/internal/text"
)

func RecordCmd(h *host.Host, con *console.Console) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "record FILE [--trace]",
		Short: "Write what the GPUs of this host answer to a file",
		Long: `Write to FILE what the GPUs of this host answer, with the errors and times. These are
the attributes that dcm reads, the KFD topology, and MIG profiles with their
placements. FILE may be - for standard output. Nothing is written to the GPUs or their
drivers. The record has no names of hosts, users or processes, and no serial numbers or
unique ids. Where a command accepts --node KIND, it also accepts the path of a record.`,
		Example: "  sudo dcm support record ./node.json\n  dcm plan cpx-nps4 --node ./node.json",
		Args:    console.Args(cobra.ExactArgs(1)),
	}
	trace := cmd.Flags().Bool("trace", false, "also record the system calls that the sandbox of a library refuses")
	cmd.RunE = func(c *cobra.Command, given []string) error {
		// The GPUs are recorded even if the configuration has an error.
		cfg, err := h.Config()
		if err != nil {
			cfg = &config.Config{Backend: config.Sysfs}
		}
		source := host.RecordSource(h, cfg)
		source.Trace = *trace
		r := record.Take(c.Context(), source, time.Now())
		content, err := r.Text()
		if err != nil {
			return err
		}
		if given[0] == "-" {
			_, err := con.Out.Write(content)
			return err
		}
		if err := atomicfile.Write(given[0], content, atomicfile.Options{Mode: 0o644}); err != nil {
			return fmt.Errorf("cannot write %s: %w", given[0], err)
		}
		con.Printf("The record of %s is in %s.\n", text.Count(len(r.GPUs), "GPU"), given[0])
		for _, line := range r.Errors {
			con.Warn(line)
		}
		return nil
	}
	return cmd
}
