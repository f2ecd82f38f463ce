package amdgpu

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"golang.org/x/sys/unix"

	"dcm/internal/worker/call"
)

const (
	smiReadTimeout = 30 * time.Second
	smiSetTimeout  = 2 * time.Minute
)

// call runs dcm-smi with one request, see [call.Once].
func (s SMI) call(ctx context.Context, r smiRequest) (smiReply, error) {
	r.Library = s.Library
	ctx, cancel := context.WithTimeout(ctx, s.requestTimeout(r))
	defer cancel()
	request, err := json.Marshal(r)
	if err != nil {
		return smiReply{}, s.fail(r, "no-answer", err)
	}
	out, err := call.Once(ctx, s.program(), request, isolations()...)
	if errors.Is(err, unix.EPERM) {
		err = &call.Error{Kind: call.NoAnswer, Err: fmt.Errorf("the library would leave files in /tmp: dcm-smi needs CAP_SYS_ADMIN, user namespaces or PrivateTmp=yes: %w", err)}
	}
	var failed *call.Error
	if errors.As(err, &failed) && (failed.Kind != call.NoAnswer || out == nil) {
		return smiReply{}, s.fail(r, string(failed.Kind), failed)
	}
	reply, bad := parseSMIReply(out)
	switch {
	case bad == nil && reply.Error != nil:
		return reply, &SMIError{r.Do, r.GPU, reply.Error.Kind, reply.Error.Status, reply.Error.err()}
	case err != nil:
		return smiReply{}, s.fail(r, "no-answer", err)
	case bad != nil:
		return smiReply{}, s.fail(r, "garbage", bad)
	}
	return reply, nil
}

func (s SMI) program() string {
	if s.Program == "" {
		return program
	}
	return s.Program
}

func (s SMI) requestTimeout(r smiRequest) time.Duration {
	switch {
	case s.Timeout > 0:
		return s.Timeout
	case r.GPU != "":
		return smiSetTimeout
	}
	return smiReadTimeout
}

func (s SMI) fail(r smiRequest, kind string, err error) error {
	return &SMIError{Do: r.Do, GPU: r.GPU, Kind: kind, Err: err}
}
