package dbusapi

import (
	"context"
	"fmt"
	"time"

	"github.com/godbus/dbus/v5"

	"dcm/internal/sanitize"
)

// Client calls the daemon on a bus.
type Client struct{ conn *dbus.Conn }

// Dial connects to the bus at that address.
func Dial(ctx context.Context, address string) (*Client, error) {
	conn, err := dial(ctx, address, nil)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrAbsent, err)
	}
	return &Client{conn.Conn}, nil
}

// Close ends the connection. Requests that have been sent are completed.
func (c *Client) Close() error { return c.conn.Close() }

// Apply puts the selected profile on the GPUs and then returns the daemon's state. It may take
// minutes, and polkit may prompt for a password.
func (c *Client) Apply(ctx context.Context) (state string, err error) {
	err = c.call(ctx, "Apply").Store(&state)
	return state, fromBusError(err)
}

// Use selects the profile permanently and then applies it like Apply.
func (c *Client) Use(ctx context.Context, profile string) (state string, err error) {
	err = c.call(ctx, "Use", profile).Store(&state)
	return state, fromBusError(err)
}

// UseUntilConfirmed selects the profile until Confirm is called, or until the time to do so is over.
func (c *Client) UseUntilConfirmed(ctx context.Context, profile string, within time.Duration, untilReboot bool) (state string, err error) {
	err = c.call(ctx, "UseUntilConfirmed", profile, uint64(within.Microseconds()), untilReboot).Store(&state)
	return state, fromBusError(err)
}

// Confirm keeps the profile that UseUntilConfirmed has selected.
func (c *Client) Confirm(ctx context.Context, profile string) error {
	return fromBusError(c.call(ctx, "Confirm", profile).Err)
}

// Account returns the current status in JSON.
func (c *Client) Account(ctx context.Context) (text string, err error) {
	err = c.conn.Object(Name, Path).CallWithContext(ctx, Interface+".Account", dbus.FlagNoAutoStart).Store(&text)
	return text, fromBusError(err)
}

// Usage returns how much of each partition is in use now, in JSON.
func (c *Client) Usage(ctx context.Context) (text string, err error) {
	err = c.conn.Object(Name, Path).CallWithContext(ctx, Interface+".Usage", dbus.FlagNoAutoStart).Store(&text)
	return text, fromBusError(err)
}

// Changes returns a channel that receives after each change of the daemon's objects, and when the
// daemon connects to the bus or disconnects. One receive may stand for several changes. The channel is
// closed at the end of the connection.
func (c *Client) Changes(ctx context.Context) (<-chan struct{}, error) {
	signals := make(chan *dbus.Signal, 16)
	c.conn.Signal(signals)
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
		for range signals {
			select {
			case out <- struct{}{}:
			default:
			}
		}
	}()
	return out, nil
}

// Manager returns the properties of the daemon's object, except Clients.
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
		"ProfileSource": &m.Source, "Profiles": &m.Profiles, "Error": &m.Error, "Hint": &m.Hint,
		"ConfigProblems": &m.Problems, "Warnings": &m.Warnings, "LastReport": &m.Report, "Since": &since, "NextTry": &retry,
	} {
		if v, ok := all[name]; ok {
			if err := v.Store(to); err != nil {
				return Manager{}, fmt.Errorf("property %s has an unknown form; is the daemon another version? %w", name, err)
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

// call calls a method with the flag that allows polkit to prompt for a password. It builds the
// message itself, since godbus has no option for this flag.
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
