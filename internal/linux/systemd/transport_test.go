package systemd

import (
	"context"
	"errors"
	"fmt"
	"net"
	"path/filepath"
	"testing"
	"time"
)

func TestTransport_BrokenSession(t *testing.T) {
	p := startPID1(t)
	p.set("a.service", "active/running", "")
	private := startPID1(t) // stands in for the private socket
	private.set("a.service", "failed/failed", "")
	c, ctx := p.dial()
	c.transport.endpoints[0].address = private.address
	l, err := c.transport.session(ctx)
	if err != nil {
		t.Fatal(err)
	}
	l.Close()
	units, err := c.Units.List(ctx, []string{"a.service"}, All)
	if err != nil || units[0].Active != "failed" {
		t.Errorf("units are %v, %v after the connection broke", units, err)
	}
}

func TestSubscribe_SwitchesToTheBus(t *testing.T) {
	private, bus := startPID1(t), startPID1(t)
	private.set("a.service", "active/running", "")
	bus.set("a.service", "failed/failed", "")
	mute, err := net.Listen("unix", filepath.Join(t.TempDir(), "bus"))
	if err != nil {
		t.Fatal(err)
	}
	defer mute.Close()
	for _, w := range []struct{ bus, now, then string }{
		{bus.address, "active", "failed"},
		{"unix:path=/nonexistent/bus", "active", "active"},
		{"unix:path=" + mute.Addr().String(), "active", "active"}, // never replies
	} {
		direct := byPrivate(private.address)
		direct.connect = func(ctx context.Context, address string, h *dispatcher) (*session, error) {
			l, err := dialBus(ctx, address, h)
			if err == nil {
				l.private = true
			}
			return l, err
		}
		_, ctx := private.dial()
		c, err := dialAny(ctx, direct, byBus(w.bus))
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		for _, want := range []string{w.now, w.then} {
			units, err := c.Units.List(ctx, []string{"a.service"}, All)
			if err != nil || units[0].Active != want {
				t.Errorf("units are %v, %v, want %q", units, err, want)
			}
			if _, err := c.Units.Settle(ctx, []string{"a.service"}, Unit.Settled); err != nil {
				t.Error(err)
			}
		}
	}
}

func TestClose_EndsCalls(t *testing.T) {
	p := startPID1(t)
	p.set("a.service", "activating/start*", "")
	c, ctx := p.dial()
	done := make(chan error, 1)
	p.afterList(func(int, []string) { c.Close() })
	go func() { _, err := c.Units.Settle(ctx, []string{"a.service"}, Unit.Settled); done <- err }()
	if err := <-done; !errors.Is(err, errClosed) {
		t.Errorf("error is %v, want that the connection was closed", err)
	}
}

func TestDispatcher_BrokenConnection(t *testing.T) {
	h := newDispatcher()
	sub := h.add()
	if _, certain := sub.result("/job/1"); !certain {
		t.Error("the result is uncertain before anything happened")
	}
	h.Terminate()
	<-sub.wake
	if _, certain := sub.result("/job/1"); certain {
		t.Error("the result is certain although signals may have been lost")
	}
}

func TestDial_NoSocketAnswers(t *testing.T) {
	bus := startBus(t)
	_, err := DialAt(t.Context(), bus, "unix:path=/nonexistent/private")
	want := fmt.Sprintf("cannot connect to systemd: %s: systemd is not on the bus; unix:path=/nonexistent/private: dial unix /nonexistent/private: connect: no such file or directory", bus)
	if got := message(err); got != want {
		t.Errorf("error is %q, want %q", got, want)
	}
}

func TestDial_ContextEnds(t *testing.T) {
	conn, getenv := manager(t) // a socket that never answers
	defer conn.Close()
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	if _, err := DialAt(ctx, "unix:path="+getenv("NOTIFY_SOCKET"), ""); err == nil {
		t.Error("no error")
	}
}
