package dbusapi

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/godbus/dbus/v5"

	"dcm/internal/sanitize"
)

// ErrAbsent is that of a call that nobody is there to answer: no bus, or no dcm on
// it.
var ErrAbsent = errors.New("dcm is not on the system bus")

// ErrGone is that of a call whose end the daemon did not live to see. What was asked for
// may have been done.
var ErrGone = errors.New("dcm has ended before it answered")

// ErrDenied is that of a call that only root, or somebody authorised, may make.
var ErrDenied = errors.New("not authorised")

// ErrCrowded is that of a call for which there is no room now, which passes.
var ErrCrowded = errors.New("dcm is busy")

// Client asks the dcm on a bus.
type Client struct{ conn *dbus.Conn }

// Dial connects to the bus at that address.
func Dial(ctx context.Context, address string) (*Client, error) {
	conn, err := dial(ctx, address)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrAbsent, err)
	}
	return &Client{conn.Conn}, nil
}

// Close ends the connection. What was asked for goes on.
func (c *Client) Close() error { return c.conn.Close() }

// Apply has the selected profile put on the GPUs, and returns what the daemon is
// at when that is over. It may take minutes, and a person may be asked to
// authorise it.
func (c *Client) Apply(ctx context.Context) (state string, err error) {
	err = c.call(ctx, "Apply").Store(&state)
	return state, fromBusError(err)
}

// Use selects the profile for good, and then does as Apply.
func (c *Client) Use(ctx context.Context, profile string) (state string, err error) {
	err = c.call(ctx, "Use", profile).Store(&state)
	return state, fromBusError(err)
}

// Account returns what the daemon sees at this moment, in the JSON form of an
// account.
func (c *Client) Account(ctx context.Context) (text string, err error) {
	err = c.conn.Object(Name, Path).CallWithContext(ctx, Interface+".Account", dbus.FlagNoAutoStart).Store(&text)
	return text, fromBusError(err)
}

// Usage returns how much of the partitions is in use at this moment, in JSON.
func (c *Client) Usage(ctx context.Context) (text string, err error) {
	err = c.conn.Object(Name, Path).CallWithContext(ctx, Interface+".Usage", dbus.FlagNoAutoStart).Store(&text)
	return text, fromBusError(err)
}

// Changes signals that the daemon shows something else than before, has come or has gone.
// Signals do not queue. The channel is closed with the connection.
func (c *Client) Changes(ctx context.Context) (<-chan struct{}, error) {
	heard := make(chan *dbus.Signal, 16)
	c.conn.Signal(heard)
	for _, rule := range [][]dbus.MatchOption{
		{dbus.WithMatchSender(Name)},
		{dbus.WithMatchSender(busName), dbus.WithMatchInterface(busName), dbus.WithMatchMember("NameOwnerChanged"), dbus.WithMatchArg(0, Name)},
	} {
		if err := c.conn.AddMatchSignalContext(ctx, rule...); err != nil {
			return nil, sanitize.Error(err)
		}
	}
	out := make(chan struct{}, 1)
	go func() {
		defer close(out)
		for range heard {
			select {
			case out <- struct{}{}:
			default:
			}
		}
	}()
	return out, nil
}

// Manager returns what the daemon shows of itself, but for its clients.
func (c *Client) Manager(ctx context.Context) (Manager, error) {
	var all map[string]dbus.Variant
	err := c.conn.Object(Name, Path).CallWithContext(ctx, propertiesInterface+".GetAll", dbus.FlagNoAutoStart, Interface).Store(&all)
	if err != nil {
		return Manager{}, fromBusError(err)
	}
	var m Manager
	var since, retry uint64
	for name, to := range map[string]any{
		"Version": &m.Version, "State": &m.State, "SelectedProfile": &m.Selected, "AppliedProfile": &m.Applied,
		"ProfileSource": &m.Source, "Profiles": &m.Profiles, "Error": &m.Error, "Cure": &m.Cure,
		"ConfigProblems": &m.Problems, "Warnings": &m.Warnings, "LastReport": &m.Report, "Since": &since, "NextTry": &retry,
	} {
		if v, ok := all[name]; ok {
			if err := v.Store(to); err != nil {
				return Manager{}, fmt.Errorf("the dcm on the bus shows %s in a form that this one does not know: %w", name, err)
			}
		}
	}
	m.Since, m.Retry = timeOf(since), timeOf(retry)
	return m, nil
}

func timeOf(microseconds uint64) time.Time {
	if microseconds == 0 {
		return time.Time{}
	}
	return time.UnixMicro(int64(microseconds))
}

// call calls a method for a person who can be asked to authorise it. The message
// is made here because the library's own call leaves that flag out.
func (c *Client) call(ctx context.Context, method string, args ...any) *dbus.Call {
	msg := &dbus.Message{
		Type:  dbus.TypeMethodCall,
		Flags: dbus.FlagNoAutoStart | dbus.FlagAllowInteractiveAuthorization,
		Headers: map[dbus.HeaderField]dbus.Variant{
			dbus.FieldDestination: dbus.MakeVariant(Name),
			dbus.FieldPath:        dbus.MakeVariant(Path),
			dbus.FieldInterface:   dbus.MakeVariant(Interface),
			dbus.FieldMember:      dbus.MakeVariant(method),
		},
		Body: args,
	}
	if len(args) > 0 {
		msg.Headers[dbus.FieldSignature] = dbus.MakeVariant(dbus.SignatureOf(args...))
	}
	return <-c.conn.SendWithContext(ctx, msg, make(chan *dbus.Call, 1)).Done
}

// fromBusError makes of a remote error one that a caller can branch on.
func fromBusError(err error) error {
	var remote dbus.Error
	if !errors.As(err, &remote) {
		return err
	}
	text := sanitize.Lines(remote.Error())
	switch remote.Name {
	case errorNoService, errorNoOwner:
		return ErrAbsent
	case errorNoReply:
		return ErrGone
	case errorDenied, errorInteractive:
		return fmt.Errorf("%w: %s", ErrDenied, text)
	case errorLimit:
		return fmt.Errorf("%w: %s", ErrCrowded, text)
	case errorInsufficient:
		return &InsufficientError{errors.New(text)}
	case errorImpossible:
		return &ImpossibleError{errors.New(text)}
	case errorConfiguration:
		return &ConfigError{errors.New(text)}
	case errorOvertaken:
		return &OvertakenError{errors.New(text)}
	}
	return &FailedError{text}
}

// FailedError is the failure of a call as the daemon tells it: for Apply and Use, why the
// profile is not on the GPUs.
type FailedError struct{ Text string }

func (e *FailedError) Error() string { return e.Text }
