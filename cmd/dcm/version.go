package main

import (
	"context"
	"errors"
	"fmt"
	"runtime"

	"github.com/spf13/cobra"

	"dcm/internal/amdgpu"
	"dcm/internal/config"
)

func versionCmd(h *host) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "version [--json]",
		Short: "Print the version",
		Args:  args(cobra.NoArgs),
	}
	asJSON := jsonFlag(cmd)
	cmd.RunE = func(c *cobra.Command, _ []string) error {
		library := h.library(c.Context())
		if *asJSON {
			return h.answer(map[string]string{"version": version, "go": runtime.Version(), "arch": runtime.GOARCH, "libamd_smi": library})
		}
		_, err := fmt.Fprintf(h.out, "dcm %s (%s, %s)\nlibamd_smi: %s\n", version, runtime.Version(), runtime.GOARCH, library)
		return err
	}
	return cmd
}

// library names the library that would be used, or says why none is.
func (h *host) library(ctx context.Context) string {
	cfg, err := h.config()
	switch {
	case err != nil:
		cfg = &config.Config{}
	case cfg.Backend == config.Sysfs:
		return `not used ([gpu] backend = "sysfs")`
	}
	found, err := smi(cfg).Version(ctx)
	var failed *amdgpu.SMIError
	switch {
	case errors.As(err, &failed) && failed.Absent():
		return "none (" + failed.Err.Error() + ")"
	case err != nil:
		return "unusable: " + err.Error()
	}
	return found.String() + ", " + found.File
}
