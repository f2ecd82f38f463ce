package dbusapi

import (
	"bytes"
	"context"
	"errors"
	"sync"

	"github.com/godbus/dbus/v5"

	"dcm/internal/frontends/admission"
	"dcm/internal/linux/dbusconn"
)

// inbox receives the calls on one connection to the bus and sends the replies. It counts each call before it
// starts a goroutine for it. The replies of users are sent one after another, so that a reply to root waits for
// at most one of them.
type inbox struct {
	tree    *tree
	handler *handler
	backlog *admission.Backlog
	refused chan refusal

	opened chan struct{} // closed when conn is set
	conn   *dbusconn.Conn

	users, root sync.Mutex // one reply at a time is encoded and sent
}

// refusal is a call above the limits.
type refusal struct {
	to   dbusconn.Header
	text string
}

func newInbox(t *tree, h *handler) *inbox {
	return &inbox{tree: t, handler: h, backlog: admission.NewBacklog(backlogLimits), refused: make(chan refusal, maxRefusals), opened: make(chan struct{})}
}

// open sets the connection on which the calls arrive. Calls that arrived before wait for it.
func (in *inbox) open(conn *dbusconn.Conn) {
	in.conn = conn
	close(in.opened)
	go in.refuse()
}

// receive implements [dbusconn.Receiver].
func (in *inbox) receive(to dbusconn.Header) func([]byte) {
	received, err := in.backlog.Receive(to.Sender, to.Size)
	if err != nil {
		in.reject(to, err)
		return nil
	}
	return func(message []byte) { go in.serve(to, received, message) }
}

// reject queues an error as the reply to a call. If the queue is full, the call gets no reply: an answer
// to each call of a flood would take the time of other calls.
func (in *inbox) reject(to dbusconn.Header, err error) {
	if to.Flags&dbus.FlagNoReplyExpected != 0 {
		return
	}
	select {
	case in.refused <- refusal{to, err.Error()}:
	default:
	}
}

// refuse sends the queued errors until the connection ends.
func (in *inbox) refuse() {
	ctx := in.conn.Context()
	pace := admission.NewPace(admission.Rate{Burst: maxRefusals, Interval: refusalInterval})
	for {
		select {
		case <-ctx.Done():
			return
		case r := <-in.refused:
			if pace.Wait(ctx) != nil {
				return
			}
			in.send(&in.users, r.to, nil, busError(errorLimit, r.text))
		}
	}
}

// serve carries out one call.
func (in *inbox) serve(to dbusconn.Header, received *admission.Received, message []byte) {
	defer received.Leave()
	<-in.opened
	c := call{conn: in.conn, sender: to.Sender, flags: to.Flags, received: received, leave: func() {}}
	if err := in.handler.identify(&c); err != nil {
		in.fail(c, to, err)
		return
	}
	defer c.who.process.Close()
	out, err := in.handler.run(&c, in.tree.latest(), message)
	defer func() { c.leave() }()
	if err == nil {
		err = in.pace(c, out)
	}
	if err != nil {
		in.fail(c, to, err)
		return
	}
	in.send(in.turn(c), to, out, nil)
}

// run finds the method that a message calls, and runs it if its kind is admitted.
func (h *handler) run(c *call, now *published, message []byte) ([]any, error) {
	msg, err := dbus.DecodeMessage(bytes.NewReader(message))
	if err != nil {
		return nil, busError(errorArguments, "the call is malformed")
	}
	m, err := now.method(msg)
	kind := admission.Read
	if err == nil {
		if c.body, err = m.decode(msg); err == nil {
			kind = m.kind(*c)
		}
	}
	if err := h.admit(c, kind); err != nil {
		return nil, err
	}
	if err != nil {
		return nil, err
	}
	return m.run(*c)
}

// pace waits until the rate of the caller's replies permits one of this size.
func (in *inbox) pace(c call, out []any) error {
	ctx, cancel := context.WithTimeout(c.context(), queryTimeout)
	defer cancel()
	size := 0
	for _, v := range out {
		switch v := v.(type) {
		case dbusconn.Encoded:
			size += v.Len()
		case string:
			size += len(v)
		}
	}
	return toBusError(in.handler.limiter.Send(ctx, c.who.owner, size))
}

// fail sends an error, or queues it if the call is above a limit.
func (in *inbox) fail(c call, to dbusconn.Header, err error) {
	if _, ok := errors.AsType[*admission.LimitError](err); ok {
		in.reject(to, err)
		return
	}
	in.send(in.turn(c), to, nil, err)
}

func (in *inbox) turn(c call) *sync.Mutex {
	if c.who.owner == 0 && c.who.uid == 0 {
		return &in.root
	}
	return &in.users
}

// send sends a reply. An error of the connection does not matter: then no reply can be sent. A call that was
// interrupted because the daemon ends gets none, so that its caller waits for the next daemon.
func (in *inbox) send(turn *sync.Mutex, to dbusconn.Header, out []any, err error) {
	turn.Lock()
	defer turn.Unlock()
	if in.conn.Context().Err() != nil {
		return
	}
	if err != nil {
		e := asBusError(err)
		_ = in.conn.ReplyError(to, e.Name, e.Error())
		return
	}
	var body dbusconn.Encoded
	if len(out) == 1 {
		body, _ = out[0].(dbusconn.Encoded)
	}
	if body.Len() == 0 {
		if body, err = dbusconn.Encode(out...); err != nil {
			_ = in.conn.ReplyError(to, errorFailed, "cannot encode the reply")
			return
		}
	}
	_ = in.conn.Reply(to, body)
}
