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

// client sends requests to dcm-nvml.
type client struct {
	program string        // path of dcm-nvml; "": never run
	args    []string      // first arguments of program
	library string        // path of the library; "": the usual places
	timeout time.Duration // of a request; 0: depends on the request
}

// call runs dcm-nvml with one request.
func (c *client) call(ctx context.Context, r nvml.Request) (nvml.Reply, error) {
	r.Library = c.library
	request, err := json.Marshal(r)
	if err != nil {
		return nvml.Reply{}, err
	}
	ctx, cancel := context.WithTimeout(ctx, c.timeoutFor(r))
	defer cancel()
	out, err := call.Once(ctx, c.program, request, call.Way{Args: c.args, Attr: call.Group()})
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

func (c *client) timeoutFor(r nvml.Request) time.Duration {
	switch {
	case c.timeout > 0:
		return c.timeout
	case r.Looks():
		return readTimeout
	}
	return setTimeout
}
