package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os/exec"
	"strings"

	"dcm/internal/daemon"
)

// journalFields are those of an entry that are worth sending: its text and dcm's own.
// The command lines that the journal adds may be of a hook, with whatever is in them.
const journalFields = "MESSAGE,MESSAGE_ID,PRIORITY,SYSLOG_IDENTIFIER,UNIT,_PID,_SYSTEMD_UNIT,_SYSTEMD_INVOCATION_ID,INVOCATION_ID,JOB_RESULT,JOB_TYPE,EXIT_CODE,EXIT_STATUS,UNIT_RESULT," +
	"DCM_PROFILE,DCM_GPU,DCM_FROM,DCM_TO,DCM_RUN,DCM_STEP,DCM_RESULT,DCM_ERROR,DCM_CURE,DCM_TOOK,DCM_UNIT,DCM_BEFORE,DCM_NOW,DCM_RESTARTS,DCM_REASON"

// journalOf reads the journal of both units in the form that the options say.
func journalOf(options ...string) func(context.Context) ([]byte, error) {
	all := append([]string{"--no-pager", "--quiet", "--unit=" + daemon.Unit, "--unit=" + daemon.ApplyUnit, "--lines=5000"}, options...)
	return func(ctx context.Context) ([]byte, error) { return output(ctx, "journalctl", all...) }
}

// kernelLines are the kernel's messages that have to do with the GPUs, and those that
// the generator left there. Not every journalctl can search by itself.
func kernelLines(ctx context.Context) ([]byte, error) {
	all, err := output(ctx, "journalctl", "--no-pager", "--quiet", "--dmesg", "--boot", "--output=short-monotonic")
	var out []byte
	for line := range bytes.Lines(all) {
		for _, word := range []string{"amdgpu", "kfd", "amd_xcp", "dcm-generator"} {
			if bytes.Contains(line, []byte(word)) {
				out = append(out, line...)
				break
			}
		}
	}
	if out == nil && err == nil {
		out = []byte{}
	}
	return out, err
}

// output runs a program and returns its standard output, even if it then fails.
func output(ctx context.Context, program string, arguments ...string) ([]byte, error) {
	out, err := exec.CommandContext(ctx, program, arguments...).Output()
	var failed *exec.ExitError
	if errors.As(err, &failed) && len(failed.Stderr) > 0 {
		err = fmt.Errorf("%w: %s", err, strings.TrimSpace(string(failed.Stderr)))
	}
	if len(out) == 0 && err != nil {
		return nil, err
	}
	return out, err
}
