package dbusapi

import (
	"context"
	"errors"
	"strconv"
	"strings"

	"github.com/godbus/dbus/v5"
)

// whileConnected returns a context that ends when the caller disconnects from the bus. It
// adds and removes the match rule in the background, so that a call is not delayed by it.
func (h *handler) whileConnected(c call) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithCancel(c.context())
	rule := []dbus.MatchOption{dbus.WithMatchSender(busName), dbus.WithMatchInterface(busName),
		dbus.WithMatchMember("NameOwnerChanged"), dbus.WithMatchArg(0, c.sender)}
	signals := make(chan *dbus.Signal, 1) // godbus queues signals that do not fit
	c.conn.Signal(signals)
	go func() {
		defer c.conn.RemoveSignal(signals)
		defer cancel()
		if err := c.conn.AddMatchSignal(rule...); err != nil {
			awaitEnd(ctx, err)
			return
		}
		awaitDisconnect(ctx, c, signals)
		cancel()
		_ = c.conn.RemoveMatchSignal(rule...) // it fails only if the connection has ended
	}()
	return ctx, cancel
}

// awaitDisconnect returns when the caller has disconnected or ctx has ended. It queries the bus only
// once and not after each signal, since signals about all waiting callers arrive here.
func awaitDisconnect(ctx context.Context, c call, signals <-chan *dbus.Signal) {
	var connected bool
	if err := c.conn.BusObject().CallWithContext(ctx, busName+".NameHasOwner", 0, c.sender).Store(&connected); err != nil || !connected {
		awaitEnd(ctx, err)
		return
	}
	for {
		select {
		case s, open := <-signals:
			if !open {
				awaitEnd(ctx, dbus.ErrClosed)
				return
			}
			if hasDisconnected(s, c.sender) {
				return
			}
		case <-ctx.Done():
			return
		}
	}
}

// awaitEnd waits for the end of ctx if the daemon's own connection is being closed. Its signals end before its
// context, and until then a call that returns would still be answered.
func awaitEnd(ctx context.Context, err error) {
	if errors.Is(err, dbus.ErrClosed) {
		<-ctx.Done()
	}
}

// hasDisconnected reports whether a signal announces the end of the sender's connection. The
// bus never gives a unique name to a second connection.
func hasDisconnected(s *dbus.Signal, sender string) bool {
	return s.Name == busName+".NameOwnerChanged" && len(s.Body) == 3 && s.Body[0] == sender && s.Body[2] == ""
}

// connectionAge returns a number that is lower for older connections: the number in the unique name
// (":1.57"), which the bus increments and never uses again. It returns 0 for a connection that is
// younger than the daemon's own, and so was not in the queue of the previous daemon.
func connectionAge(sender string, own []string) uint64 {
	if len(own) == 0 {
		return 0
	}
	theirs, ours := connectionNumber(sender), connectionNumber(own[0])
	if theirs >= ours {
		return 0
	}
	return theirs
}

// connectionNumber returns the number of a unique name, or 0 if the name has another form.
func connectionNumber(name string) uint64 {
	first, second, ok := strings.Cut(strings.TrimPrefix(name, ":"), ".")
	major, err := strconv.ParseUint(first, 10, 31)
	minor, also := strconv.ParseUint(second, 10, 32)
	if !ok || err != nil || also != nil {
		return 0
	}
	return major<<32 | minor
}
