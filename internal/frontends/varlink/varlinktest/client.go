// Package varlinktest has a varlink client for tests. It does not use the code of package varlink, so
// that an error there is detected.
package varlinktest

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
)

// Error is an error that a service returned.
type Error struct {
	Name       string
	Parameters json.RawMessage
}

func (e *Error) Error() string { return e.Name + " " + string(e.Parameters) }

// Client calls a service, one call at a time.
type Client struct {
	conn net.Conn
	in   *bufio.Reader
}

// Dial connects to the socket at that path.
func Dial(ctx context.Context, path string) (*Client, error) {
	conn, err := new(net.Dialer).DialContext(ctx, "unix", path)
	if err != nil {
		return nil, err
	}
	return &Client{conn, bufio.NewReader(conn)}, nil
}

// Close closes the connection. A call without More is completed.
func (c *Client) Close() error { return c.conn.Close() }

// Call makes a call and decodes its reply into out. It returns an [*Error] of the service as it is.
func (c *Client) Call(ctx context.Context, method string, in, out any) error {
	return c.call(ctx, method, in, false, func(p json.RawMessage) error { return json.Unmarshal(p, out) })
}

// Follow makes a call with More and calls each with every reply, until the last one or an error.
func (c *Client) Follow(ctx context.Context, method string, in any, each func(json.RawMessage) error) error {
	return c.call(ctx, method, in, true, each)
}

func (c *Client) call(ctx context.Context, method string, in any, more bool, each func(json.RawMessage) error) error {
	defer context.AfterFunc(ctx, func() { c.conn.Close() })()
	text, err := json.Marshal(map[string]any{"method": method, "parameters": in, "more": more})
	if err != nil {
		return err
	}
	if _, err := c.conn.Write(append(text, 0)); err != nil {
		return errors.Join(ctx.Err(), err)
	}
	for {
		text, err := c.in.ReadBytes(0)
		if err != nil {
			return errors.Join(ctx.Err(), err)
		}
		var r struct {
			Parameters json.RawMessage
			Continues  bool
			Error      string
		}
		if err := json.Unmarshal(text[:len(text)-1], &r); err != nil {
			return fmt.Errorf("the answer to %s cannot be read: %w", method, err)
		}
		if r.Error != "" {
			return &Error{r.Error, r.Parameters}
		}
		if err := each(r.Parameters); err != nil || !r.Continues {
			return err
		}
	}
}
