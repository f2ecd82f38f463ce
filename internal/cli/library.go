package cli

import (
	"context"
	"errors"

	"dcm/internal/amdgpu"
	"dcm/internal/config"
	"dcm/internal/host"
)

// library names the library that would be used, or says why none is.
func library(ctx context.Context, h *host.Host) string {
	cfg, err := h.Config()
	switch {
	case err != nil:
		cfg = &config.Config{}
	case cfg.Backend == config.Sysfs:
		return `not used ([gpu] backend = "sysfs")`
	}
	found, err := amdgpu.SMI{Library: cfg.Library}.Version(ctx)
	var failed *amdgpu.SMIError
	switch {
	case errors.As(err, &failed) && failed.Absent():
		return "none (" + failed.Err.Error() + ")"
	case err != nil:
		return "unusable: " + err.Error()
	}
	return found.String() + ", " + found.File
}
