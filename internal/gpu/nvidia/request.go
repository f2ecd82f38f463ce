package nvidia

import (
	"context"
	"encoding/json"
	"errors"
	"time"

	"dcm/internal/gpu/nvml"
	"dcm/internal/worker/call"
)

const (
	readTimeout = 30 * time.Second
	setTimeout  = 2 * time.Minute // includes a reset of an Ampere GPU
)

// call runs dcm-nvml with one request.
func (n *Node) call(ctx context.Context, r nvml.Request) (nvml.Reply, error) {
	r.Library = n.library
	request, err := json.Marshal(r)
	if err != nil {
		return nvml.Reply{}, err
	}
	ctx, cancel := context.WithTimeout(ctx, n.timeoutFor(r))
	defer cancel()
	out, err := call.Once(ctx, n.program, request, call.Way{Args: n.args, Attr: call.Group()})
	if failed, ok := errors.AsType[*call.Error](err); ok && failed.Kind != call.NoAnswer {
		return nvml.Reply{}, &Error{Op: r.Do, GPU: r.GPU, Kind: kindOf(failed.Kind), Text: err.Error(), Err: err}
	}
	reply, bad := nvml.ParseReply(out)
	switch {
	case bad == nil && reply.Error != nil:
		return reply, failure(r.Do, r.GPU, reply.Error)
	case err != nil:
		return nvml.Reply{}, &Error{Op: r.Do, GPU: r.GPU, Kind: noAnswer, Text: err.Error(), Err: err}
	case bad != nil:
		return nvml.Reply{}, &Error{Op: r.Do, GPU: r.GPU, Kind: nvml.Garbage, Text: bad.Error(), Err: bad}
	}
	return reply, nil
}

func kindOf(k call.Kind) nvml.Kind {
	switch k {
	case call.Deadline:
		return nvml.Timeout
	case call.NoProgram:
		return noProgram
	}
	return noAnswer
}

func (n *Node) timeoutFor(r nvml.Request) time.Duration {
	switch {
	case n.timeout > 0:
		return n.timeout
	case r.Looks():
		return readTimeout
	}
	return setTimeout
}
