// Package agent calls the dcm of this host through its socket for agents. The protocol is
// varlink: JSON objects, each terminated by NUL. It knows no cluster. Only [Client.UseFor]
// changes anything.
package agent

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
)

// iface is the interface of the daemon.
const iface = "org.deviceconfig.Agent1"

// limit is the maximum size of a reply in bytes. The account of a host with eight GPUs in 64
// partitions has 60 kB.
const limit = 16 << 20

// Client calls dcm through a socket, with one connection for each call.
type Client struct{ Socket string }

// Plan is what applying a profile would change.
type Plan struct {
	Steps    []string `json:"steps"`
	Restarts []string `json:"restarts"`
	Holders  []string `json:"holders"`
	Reload   bool     `json:"reload"`
	Warnings []string `json:"warnings"`
	GPUs     []string `json:"gpus"` // addresses of the GPUs that change; nil from an older dcm
}

// Used is the result of a run.
type Used struct {
	Result  string `json:"result"`
	Summary string `json:"summary"`
}

type request struct {
	Text    string `json:"text"`
	Profile string `json:"profile"`
}

// PlanFor returns what applying the profile of the configuration text would change.
func (c Client) PlanFor(ctx context.Context, text, profile string) (Plan, error) {
	var plan Plan
	err := c.call(ctx, "PlanFor", request{text, profile}, false, func(parameters []byte) (bool, error) {
		return false, json.Unmarshal(parameters, &plan)
	})
	return plan, err
}

// UseFor applies the profile of the configuration text and returns after the run. If the
// connection is lost, the run continues.
func (c Client) UseFor(ctx context.Context, text, profile string) (Used, error) {
	var used Used
	err := c.call(ctx, "UseFor", request{text, profile}, false, func(parameters []byte) (bool, error) {
		return false, json.Unmarshal(parameters, &used)
	})
	return used, err
}

// Account returns the current account.
func (c Client) Account(ctx context.Context) (Account, error) {
	var now Account
	err := c.call(ctx, "Account", nil, false, func(parameters []byte) (bool, error) {
		var reply struct{ Account Account }
		err := json.Unmarshal(parameters, &reply)
		now = reply.Account
		return false, err
	})
	return now, err
}

// Follow calls each with the current account and with every later one. It returns an error
// when the connection ends.
func (c Client) Follow(ctx context.Context, each func(Account)) error {
	return c.call(ctx, "Account", nil, true, func(parameters []byte) (bool, error) {
		var reply struct{ Account Account }
		if err := json.Unmarshal(parameters, &reply); err != nil {
			return false, err
		}
		each(reply.Account)
		return true, nil
	})
}

// call sends one request and passes replies to take until take wants no more.
func (c Client) call(ctx context.Context, method string, parameters any, follow bool, take func([]byte) (more bool, err error)) error {
	failed := func(err error) error {
		if ctx.Err() != nil {
			err = ctx.Err()
		}
		return fmt.Errorf("cannot call %s on %s: %w", method, c.Socket, err)
	}
	conn, err := new(net.Dialer).DialContext(ctx, "unix", c.Socket)
	if err != nil {
		return failed(err)
	}
	defer conn.Close()
	defer context.AfterFunc(ctx, func() { conn.Close() })()
	message, err := json.Marshal(struct {
		Method     string `json:"method"`
		Parameters any    `json:"parameters,omitempty"`
		More       bool   `json:"more,omitempty"`
	}{iface + "." + method, parameters, follow})
	if err != nil {
		return failed(err)
	}
	if _, err := conn.Write(append(message, 0)); err != nil {
		return failed(err)
	}
	replies := bufio.NewReaderSize(conn, 1<<16)
	for {
		more, err := c.reply(replies, take)
		if refused := (*Refusal)(nil); errors.As(err, &refused) {
			return err
		}
		if err != nil {
			return failed(err)
		}
		if !more {
			return nil
		}
	}
}

// reply reads one reply. A reply without continues is the last one.
func (c Client) reply(from *bufio.Reader, take func([]byte) (bool, error)) (more bool, err error) {
	message, err := read(from)
	if err != nil {
		return false, err
	}
	var reply struct {
		Parameters json.RawMessage `json:"parameters"`
		Continues  bool            `json:"continues"`
		Error      string          `json:"error"`
	}
	if err := json.Unmarshal(message, &reply); err != nil {
		return false, err
	}
	if reply.Error != "" {
		return false, refusal(reply.Error, reply.Parameters)
	}
	if len(reply.Parameters) == 0 {
		reply.Parameters = json.RawMessage("{}")
	}
	more, err = take(reply.Parameters)
	if err == nil && more && !reply.Continues {
		return false, io.EOF
	}
	return more, err
}

// read reads up to the next NUL.
func read(from *bufio.Reader) ([]byte, error) {
	var message []byte
	for {
		part, err := from.ReadSlice(0)
		message = append(message, part...)
		switch {
		case len(message) > limit:
			return nil, fmt.Errorf("reply too long (more than %d bytes)", limit)
		case err == nil:
			return bytes.TrimSuffix(message, []byte{0}), nil
		case !errors.Is(err, bufio.ErrBufferFull):
			return nil, err
		}
	}
}
