package dbusapi

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/godbus/dbus/v5"
)

// ErrNotBack is returned if dcm.service is starting and did not answer within the limit of the call.
var ErrNotBack = errors.New("dcm.service is starting and does not answer yet")

// DownError is returned if dcm.service neither runs nor is starting.
type DownError struct{ State string } // systemd's ActiveState, or "not-found"

func (e *DownError) Error() string {
	return fmt.Sprintf("dcm.service is not running (%s); see systemctl status dcm", e.State)
}

// Unwrap returns [ErrAbsent].
func (e *DownError) Unwrap() error { return ErrAbsent }

// RetryPolicy defines how a call waits for a daemon that is not on the bus.
type RetryPolicy struct {
	Limit time.Duration // the longest wait; 0 for no limit, also while dcm.service is stopped
	// Down waits until dcm.service neither runs nor is starting, and returns its state.
	Down func(context.Context) (state string, err error)
	Note func(string) // reports that the call waits; may be nil
	Once bool         // a call that the daemon may have received is not repeated
}

// Call calls do with a connection to the bus at that address. If the daemon is not on the bus
// or ends before it replies, Call waits until it is on the bus again, and calls do again.
func Call(ctx context.Context, address string, p RetryPolicy, do func(*Client) error) error {
	var c *Client
	defer func() {
		if c != nil {
			c.Close()
		}
	}()
	waiting := ctx // gets the limit with the first wait
	for repeated := false; ; repeated = true {
		if c == nil || !c.conn.Connected() {
			next, err := p.dial(ctx, address)
			if err != nil && !repeated {
				return err
			}
			if err != nil { // the bus was there before, so its socket is missing only during a restart
				if err := p.pause(ctx, waiting); err != nil {
					return err
				}
				continue
			}
			c = next
		}
		err := do(c)
		if err != nil && ctx.Err() == nil && !c.conn.Connected() {
			err = fmt.Errorf("%w: the connection to the bus was closed", ErrGone)
		}
		if !p.repeats(err) || ctx.Err() != nil {
			return err
		}
		if p.Limit > 0 && waiting == ctx {
			var cancel context.CancelFunc
			waiting, cancel = context.WithTimeout(ctx, p.Limit)
			defer cancel()
		}
		if p.Note != nil {
			p.Note(err.Error() + "; waiting until it is back")
		}
		if err := p.await(ctx, waiting, c); err != nil {
			return err
		}
	}
}

// redialDelay is the time between two attempts to connect to a bus that is restarted.
const redialDelay = 100 * time.Millisecond

// pause waits before the next attempt to connect.
func (p RetryPolicy) pause(ctx, waiting context.Context) error {
	select {
	case <-time.After(redialDelay):
		return nil
	case <-waiting.Done():
	}
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	return fmt.Errorf("%w (waited %s)", ErrNotBack, p.Limit)
}

// repeats reports whether a call with that error is made again.
func (p RetryPolicy) repeats(err error) bool {
	return errors.Is(err, ErrAbsent) || errors.Is(err, ErrGone) && !p.Once
}

// await returns nil if the call may be made again. waiting is ctx with the limit.
func (p RetryPolicy) await(ctx, waiting context.Context, c *Client) error {
	err := p.awaitBack(waiting, c)
	switch {
	case ctx.Err() != nil:
		return context.Cause(ctx)
	case waiting.Err() != nil:
		return fmt.Errorf("%w (waited %s)", ErrNotBack, p.Limit)
	case c.conn.Connected(): // otherwise the bus itself is restarting
		return err
	}
	return nil
}

// dial connects to the bus, which may block.
func (p RetryPolicy) dial(ctx context.Context, address string) (*Client, error) {
	if p.Limit == 0 {
		return Dial(ctx, address)
	}
	limit, cancel := context.WithTimeout(ctx, p.Limit)
	defer cancel()
	c, err := Dial(limit, address)
	if err != nil && ctx.Err() == nil && limit.Err() != nil {
		// The error depends on the moment at which the connection was closed, so it is replaced.
		err = fmt.Errorf("%w: the system bus does not answer (waited %s)", ErrNotBack, p.Limit)
	}
	return c, err
}

// awaitBack returns when dcm is on the bus, or with an error if it will not appear.
func (p RetryPolicy) awaitBack(ctx context.Context, c *Client) error {
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
		state, err := p.Down(ctx)
		down <- end{state, err}
	}()
	for {
		select {
		case err := <-named:
			return fromBusError(err)
		case e := <-down:
			switch {
			case e.err != nil: // PID 1 does not answer: wait for the name or the limit only
			case p.Limit > 0 || e.state == "not-found" || e.state == "masked":
				return &DownError{e.state}
			case p.Note != nil:
				p.Note(fmt.Sprintf("dcm.service is %s; waiting until it is started", e.state))
			}
		}
	}
}

// AwaitName returns when dcm is on the bus.
func (c *Client) AwaitName(ctx context.Context) error {
	rule := []dbus.MatchOption{dbus.WithMatchSender(busName), dbus.WithMatchInterface(busName),
		dbus.WithMatchMember("NameOwnerChanged"), dbus.WithMatchArg(0, Name)}
	signals := make(chan *dbus.Signal, 1) // one signal is enough to check again
	c.conn.Signal(signals)
	defer c.conn.RemoveSignal(signals)
	if err := c.conn.AddMatchSignalContext(ctx, rule...); err != nil {
		return err
	}
	for {
		var owned bool
		if err := c.conn.BusObject().CallWithContext(ctx, busName+".NameHasOwner", 0, Name).Store(&owned); err != nil || owned {
			return err
		}
		select {
		case <-signals:
		case <-c.conn.Context().Done():
			return dbus.ErrClosed
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}
