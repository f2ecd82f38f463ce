package dbusapi

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/godbus/dbus/v5"

	"dcm/internal/linux/dbusconn"
	"dcm/internal/testkit/testdeadline"
)

// A sender floods the daemon before its user is known. The number of goroutines is limited, and
// calls of other senders are answered.
func TestInbox_FloodOfUnknownSender(t *testing.T) {
	b := startBus(t)
	flood, other := b.connect(), b.connect()
	d := &desk{}
	s := New(b.address, controlBy(d), slog.New(slog.NewTextHandler(t.Output(), nil)))
	var concurrent atomic.Int64
	ended := make(chan struct{})
	s.handler.caller = func(ctx context.Context, c call) (credentials, error) {
		if c.sender == flood.Names()[0] {
			concurrent.Add(1)
			<-ended
			return credentials{uid: 1000, owner: 1000}, nil
		}
		return credentials{uid: 1001, owner: 1001}, nil
	}
	b.run(s)
	defer close(ended)
	b.owned()
	for range 4000 {
		if err := flood.Object(Name, Path).Call(Interface+".Account", dbus.FlagNoReplyExpected).Err; err != nil {
			t.Fatal(err)
		}
	}
	// The bus has forwarded the flood when it answers the next call.
	if err := flood.BusObject().Call(busName+".GetId", 0).Err; err != nil {
		t.Fatal(err)
	}
	ctx, cancel := testdeadline.Context(t.Context(), eventTimeout)
	defer cancel()
	if err := other.Object(Name, Path).CallWithContext(ctx, Interface+".Account", 0).Err; err != nil {
		t.Fatal(err)
	}
	if n := concurrent.Load(); n > int64(backlogLimits.Sender.Calls) {
		t.Errorf("concurrent calls of the flood: got %d, want at most %d", n, backlogLimits.Sender.Calls)
	}
}

// A call without a reply is refused without one. Later calls of the sender are admitted.
func TestInbox_RefusedWithoutReply(t *testing.T) {
	b := startBus(t)
	b.serve(&desk{}, 1000)
	b.owned()
	conn := b.connect()
	replies := make(chan *dbus.Message, 4096)
	conn.Eavesdrop(replies)
	for range 1000 {
		conn.Object(Name, Path).Call(peerInterface+".Ping", dbus.FlagNoReplyExpected)
	}
	conn.Eavesdrop(nil)
	if err := conn.Object(Name, Path).Call(Interface+".Queue", 0).Err; err != nil {
		var remote dbus.Error
		if !errors.As(err, &remote) || remote.Name != errorLimit {
			t.Error(err)
		}
	}
	for len(replies) > 0 {
		if m := <-replies; m.Type == dbus.TypeError || m.Type == dbus.TypeMethodReply {
			t.Errorf("reply to a call without one: %s", m)
		}
	}
}

// A large answer is encoded once for each published account.
func TestPublished_EncodedOnce(t *testing.T) {
	p := &published{bodies: make(map[string]func() (dbusconn.Encoded, error))}
	var encoded atomic.Int64
	var all sync.WaitGroup
	for range 8 {
		all.Go(func() {
			if _, err := p.encoded("x", func() any { encoded.Add(1); return "x" }); err != nil {
				t.Error(err)
			}
		})
	}
	all.Wait()
	if n := encoded.Load(); n != 1 {
		t.Errorf("encoded %d times, want 1", n)
	}
}
