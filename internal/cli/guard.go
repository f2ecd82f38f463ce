package cli

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"

	"github.com/spf13/cobra"

	"dcm/internal/exit"
	"dcm/internal/host"
	"dcm/internal/unitname"
)

// guardProgram is what the unit that guards what is exclusive runs.
const guardProgram = "/usr/libexec/dcm/dcm-guard"

func guardCmd(h *host.Host, con *Console) *cobra.Command {
	return &cobra.Command{
		Use:   "guard on|off",
		Short: "Let others in where partitions are reserved exclusively, until it is on again",
		Long: `Take the guard out of the kernel until the next boot, or put it back. With it off what
is reserved exclusively is confined to its holders' units no less, and open to others.`,
		Args:      args(cobra.MatchAll(cobra.ExactArgs(1), cobra.OnlyValidArgs)),
		ValidArgs: []string{"on", "off"},
		RunE: func(c *cobra.Command, given []string) error {
			if err := h.NeedRoot("turning the guard " + given[0]); err != nil {
				return exit.With(exit.Failed, err)
			}
			ctx := c.Context()
			conn, err := h.Dial(ctx)
			if err != nil {
				return err
			}
			defer conn.Close()
			mark := h.GuardOff()
			if given[0] == "on" {
				if err := os.Remove(mark); err != nil && !errors.Is(err, fs.ErrNotExist) {
					return err
				}
				return conn.Start(ctx, unitname.Guard)
			}
			if err := os.WriteFile(mark, nil, 0o644); err != nil {
				return err
			}
			if err := conn.Stop(ctx, unitname.Guard); err != nil {
				return err
			}
			if out, err := exec.CommandContext(ctx, guardProgram, "off").CombinedOutput(); err != nil {
				return fmt.Errorf("cannot take the guard out of the kernel: %w: %s", err, out)
			}
			return nil
		},
	}
}
