package dbusapi

import (
	"context"
	"errors"
	"fmt"
	"time"
)

// ErrNotBack is the error of a call for which dcm.service was starting for too long.
var ErrNotBack = errors.New("dcm.service is starting and does not answer yet")

// DownError is the error of a call while dcm.service neither runs nor is starting.
type DownError struct{ State string } // systemd's ActiveState, or "not-found"

func (e *DownError) Error() string {
	return fmt.Sprintf("dcm.service is not running (%s); see systemctl status dcm", e.State)
}

// Unwrap returns [ErrAbsent].
func (e *DownError) Unwrap() error { return ErrAbsent }

// RetryPolicy is how a call waits for a daemon that is not on the bus.
type RetryPolicy struct {
	Limit time.Duration // the longest wait; 0 for no limit, also while dcm.service is stopped
	// Down returns when dcm.service neither runs nor is about to start, with its state.
	Down func(context.Context) (state string, err error)
	Note func(string) // reports that the call waits; nil: nothing is reported
	Once bool         // a call that the daemon may have received is not repeated
}

// Call calls do with a connection to the bus at that address. If the daemon is away or
// ends before its answer, Call waits until it is on the bus again, and calls do again.
func Call(ctx context.Context, address string, w RetryPolicy, do func(*Client) error) error {
	var c *Client
	defer func() {
		if c != nil {
			c.Close()
		}
	}()
	waiting := ctx // has the limit from the first wait on
	for {
		if c == nil || !c.conn.Connected() {
			next, err := w.dial(ctx, address)
			if err != nil {
				return err
			}
			c = next
		}
		err := do(c)
		if err != nil && ctx.Err() == nil && !c.conn.Connected() {
			err = fmt.Errorf("%w: the connection to the bus was closed", ErrGone)
		}
		away := errors.Is(err, ErrAbsent) || errors.Is(err, ErrGone) && !w.Once
		if !away || ctx.Err() != nil {
			return err
		}
		if w.Limit > 0 && waiting == ctx {
			var cancel context.CancelFunc
			waiting, cancel = context.WithTimeout(ctx, w.Limit)
			defer cancel()
		}
		if w.Note != nil {
			w.Note(err.Error() + "; waiting until it is back")
		}
		err = w.back(waiting, c)
		switch {
		case ctx.Err() != nil:
			return context.Cause(ctx)
		case waiting.Err() != nil:
			return fmt.Errorf("%w (waited %s)", ErrNotBack, w.Limit)
		case err != nil && c.conn.Connected(): // else the bus itself is restarting
			return err
		}
	}
}

// dial connects to the bus, which may hang.
func (w RetryPolicy) dial(ctx context.Context, address string) (*Client, error) {
	if w.Limit == 0 {
		return Dial(ctx, address)
	}
	limit, cancel := context.WithTimeout(ctx, w.Limit)
	defer cancel()
	c, err := Dial(limit, address)
	if err != nil && ctx.Err() == nil && limit.Err() != nil {
		// However the connection failed when it was cut off.
		err = fmt.Errorf("%w: the system bus does not answer (waited %s)", ErrNotBack, w.Limit)
	}
	return c, err
}

// back returns when dcm is on the bus, or cannot come to be.
func (w RetryPolicy) back(ctx context.Context, c *Client) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	named := make(chan error, 1)
	go func() { named <- c.AwaitName(ctx) }()
	type end struct {
		state string
		err   error
	}
	down := make(chan end, 1)
	go func() {
		state, err := w.Down(ctx)
		down <- end{state, err}
	}()
	for {
		select {
		case err := <-named:
			return fromBusError(err)
		case e := <-down:
			switch {
			case e.err != nil: // PID 1 does not answer; the name and the limit remain
			case w.Limit > 0 || e.state == "not-found" || e.state == "masked":
				return &DownError{e.state}
			case w.Note != nil:
				w.Note(fmt.Sprintf("dcm.service is %s; waiting until it is started", e.state))
			}
		}
	}
}
