package fluxcmd

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os/exec"
	"strings"
	"time"

	"dcm/internal/sanitize"
)

// fluxTimeout limits a call of flux(1).
const fluxTimeout = time.Minute

// job is the job of a prolog or an epilog.
type job struct{ id string }

// thisJob returns the job that Flux names in the environment.
func thisJob() (job, error) {
	id := sanitize.Env("FLUX_JOB_ID")
	if id == "" || strings.HasPrefix(id, "-") {
		return job{}, errors.New("FLUX_JOB_ID is not set: Flux runs this command before or after a job")
	}
	return job{id}, nil
}

// flux runs flux(1) from PATH and returns its standard output.
func flux(ctx context.Context, args ...string) ([]byte, error) {
	ctx, cancel := context.WithTimeout(ctx, fluxTimeout)
	defer cancel()
	var stdout, stderr bytes.Buffer
	cmd := exec.CommandContext(ctx, "flux", args...)
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	err := cmd.Run()
	if text := strings.TrimSpace(stderr.String()); err != nil && text != "" {
		err = errors.New(sanitize.Text(text))
	}
	if err != nil {
		return nil, fmt.Errorf("flux %s: %w", strings.Join(args[:2], " "), err)
	}
	return stdout.Bytes(), nil
}

// gpumode returns the value that the user of the job has set with --setattr=gpumode=VALUE, "" for none.
func (j job) gpumode(ctx context.Context) (string, error) {
	text, err := flux(ctx, "job", "info", j.id, "jobspec")
	if err != nil {
		return "", err
	}
	var spec struct {
		Attributes struct {
			System struct {
				GPUMode any `json:"gpumode"`
			} `json:"system"`
		} `json:"attributes"`
	}
	if err := json.Unmarshal(text, &spec); err != nil {
		return "", fmt.Errorf("job %s: cannot decode the jobspec: %w", j.id, err)
	}
	switch mode := spec.Attributes.System.GPUMode.(type) {
	case nil:
		return "", nil
	case string:
		return sanitize.Text(mode), nil
	}
	return "", fmt.Errorf("job %s: gpumode is not a string", j.id)
}

// fail ends the job with an exception. A prolog that fails would drain the node for an error of the user.
func (j job) fail(ctx context.Context, why error) error {
	text, _, _ := strings.Cut(why.Error(), "\n")
	_, err := flux(ctx, "job", "raise", "--severity=0", "--type=gpumode", j.id, sanitize.Text(text))
	return err
}
