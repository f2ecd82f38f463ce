package dbusapi

import (
	"context"
	"errors"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/godbus/dbus/v5"
	"github.com/google/go-cmp/cmp"

	"dcm/internal/testkit/testdeadline"
)

func TestClient_Leases(t *testing.T) {
	b := startBus(t)
	d := &desk{}
	s := New(b.address, controlBy(d), slog.New(slog.NewTextHandler(t.Output(), nil)))
	s.handler.caller = func(context.Context, call) (credentials, error) {
		return credentials{owner: 1000, uid: 1000, groups: []uint32{5, desksGroup}}, nil
	}
	b.run(s)
	b.owned()
	c, err := Dial(t.Context(), b.address)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	got, err := c.Acquire(t.Context(), Request{Partitions: 3, Time: 2 * time.Hour, Command: "x\x1b"})
	want := Lease{"dcm-lease-1000-4f1c09aa.scope", []string{"0000:05:00.0-3"}, "1 of 0000:05:00.0", []string{"a note"}}
	if diff := cmp.Diff(want, got); diff != "" || err != nil {
		t.Errorf("%v, (-want +got):\n%s", err, diff)
	}
	if got := d.did(); got != "acquire:3:7200" {
		t.Errorf("calls of the daemon: %q", got)
	}
	d.answer("", &InsufficientError{errors.New("1 is free")})
	if _, err := c.Acquire(t.Context(), Request{GPUs: 1}); !IsInsufficient(err) || err.Error() != "1 is free" {
		t.Errorf("too few free partitions: %v", err)
	}
	d.answer("", &ImpossibleError{errors.New("the node has 8")})
	if _, err := c.Acquire(t.Context(), Request{Partitions: 9}); !IsImpossible(err) || IsInsufficient(err) || err.Error() != "the node has 8" {
		t.Errorf("more than the node has: %v", err)
	}
	if text, err := c.Queue(t.Context()); err != nil || !strings.Contains(text, `"id":4711`) {
		t.Errorf("queue: got %s, %v", text, err)
	}
	d.answer("", errors.New("no request 4711 in the queue"))
	if err := c.Dequeue(t.Context(), 4711); err == nil || err.Error() != "no request 4711 in the queue" {
		t.Errorf("Dequeue: got %v", err)
	}
}

func TestAcquire_CallerDisconnects(t *testing.T) {
	b := startBus(t)
	d := &desk{wait: make(chan struct{})}
	b.serve(d, 0)
	b.owned()
	c, err := Dial(t.Context(), b.address)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	positions := make(chan QueuePosition, 1)
	answered := make(chan error, 1)
	go func() {
		_, err := c.Acquire(ctx, Request{Wait: true, Queued: func(p QueuePosition) { positions <- p }})
		answered <- err
	}()
	select {
	case <-d.wait:
	case <-testdeadline.After(eventTimeout):
		t.Fatal("the request did not enter the queue")
	}
	select {
	case p := <-positions:
		if want := (QueuePosition{2, 3, "0 are free"}); p != want {
			t.Errorf("position: got %+v, want %+v", p, want)
		}
	case <-testdeadline.After(eventTimeout):
		t.Error("no position was reported")
	}
	cancel()
	<-answered
	c.Close()
	select {
	case <-d.wait:
	case <-testdeadline.After(eventTimeout):
		t.Error("the request is still in the queue")
	}
}

// doorman sends when the caller of Acquire has disconnected.
type doorman struct {
	hall
	left chan struct{}
}

func (d *doorman) Acquire(ctx context.Context, who Caller, w Request) (Lease, error) {
	l, err := d.hall.Acquire(ctx, who, w)
	d.left <- struct{}{}
	return l, err
}

// The disconnect of one waiting caller must cause no query for each of the others.
func TestPresence_OneQueryPerCaller(t *testing.T) {
	b := startBus(t)
	came, left := make(chan struct{}), make(chan struct{})
	s := New(b.address, controlBy(&doorman{hall{&desk{}, came}, left}), slog.New(slog.NewTextHandler(t.Output(), nil)))
	s.handler.caller = func(context.Context, call) (credentials, error) { return credentials{}, nil }
	b.run(s)
	b.owned()
	monitor := b.connect()
	signals := make(chan *dbus.Message, 1000)
	if err := monitor.BusObject().Call("org.freedesktop.DBus.Monitoring.BecomeMonitor", 0, []string{"member='NameHasOwner'", "member='End'"}, uint32(0)).Err; err != nil {
		t.Fatal(err)
	}
	monitor.Eavesdrop(signals)
	const callers = 5
	await := func(event <-chan struct{}) {
		select {
		case <-event:
		case <-testdeadline.After(eventTimeout):
			t.Fatal("a request neither waits nor ends")
		}
	}
	var clients []*Client
	for range callers {
		c, err := Dial(t.Context(), b.address)
		if err != nil {
			t.Fatal(err)
		}
		clients = append(clients, c)
		go c.Acquire(t.Context(), Request{Wait: true})
		await(came)
	}
	for _, c := range clients {
		c.Close()
		await(left)
	}
	if err := b.connect().Emit("/", "org.deviceconfig.Test.End"); err != nil {
		t.Fatal(err)
	}
	queries := 0
	for {
		select {
		case m := <-signals:
			switch m.Headers[dbus.FieldMember].Value() {
			case "NameHasOwner":
				queries++
				continue
			case "End":
			default:
				continue
			}
		case <-testdeadline.After(eventTimeout):
			t.Fatal("no signal of the disconnect arrived")
		}
		break
	}
	if queries > callers {
		t.Errorf("queries of the bus: got %d for %d callers, want one for each", queries, callers)
	}
}

// If the daemon ends, a waiting caller gets an error and can connect to the next daemon.
func TestAcquire_DaemonEnds(t *testing.T) {
	b := startBus(t)
	d := &desk{wait: make(chan struct{})}
	s := New(b.address, controlBy(d), slog.New(slog.NewTextHandler(t.Output(), nil)))
	s.handler.caller = func(context.Context, call) (credentials, error) { return credentials{}, nil }
	ctx, end := context.WithCancel(t.Context())
	ended := make(chan struct{})
	go func() { defer close(ended); s.Run(ctx, nil) }()
	b.owned()
	c, err := Dial(t.Context(), b.address)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	answered := make(chan error, 1)
	go func() {
		_, err := c.Acquire(t.Context(), Request{Wait: true})
		answered <- err
	}()
	select {
	case <-d.wait:
	case <-testdeadline.After(eventTimeout):
		t.Fatal("the request did not enter the queue")
	}
	end()
	<-ended
	if err := <-answered; !errors.Is(err, ErrGone) {
		t.Errorf("waiting call: got %v, want ErrGone", err)
	}
	back := make(chan error, 1)
	go func() { back <- c.AwaitName(t.Context()) }()
	b.serve(&desk{}, 0)
	if err := <-back; err != nil {
		t.Errorf("call of the next daemon: %v", err)
	}
}

func TestConnectionAge(t *testing.T) {
	own := []string{":1.57", Name}
	for _, tt := range []struct {
		sender string
		own    []string
		want   uint64
	}{
		{":1.9", own, 1<<32 | 9}, {":1.56", own, 1<<32 | 56}, {":1.58", own, 0}, {":2.3", own, 0},
		{":1.4294967295", []string{":2.1"}, 1<<33 - 1}, {"org.example", own, 0}, {":1.x", own, 0}, {"", own, 0}, {":1.9", nil, 0},
	} {
		if got := connectionAge(tt.sender, tt.own); got != tt.want {
			t.Errorf("connection %q, daemon's own %q: got %d, want %d", tt.sender, tt.own, got, tt.want)
		}
	}
}

// hall is a desk at which requests for leases wait.
type hall struct {
	*desk
	age chan struct{}
}

func (h hall) Acquire(ctx context.Context, _ Caller, _ Request) (Lease, error) {
	h.age <- struct{}{}
	<-ctx.Done()
	return Lease{}, ctx.Err()
}

// The requests arrive concurrently, as after a restart of the daemon, or one after the other if polkit
// authorises each.
func TestRelease_WhileAllJobsWait(t *testing.T) {
	for name, groups := range map[string][]uint32{"a member": {desksGroup}, "whom polkit lets": nil} {
		t.Run(name, func(t *testing.T) {
			b := startBus(t)
			b.polkit(&authority{allowed: map[string]bool{actionLease: true}})
			h := hall{&desk{}, make(chan struct{})}
			s := New(b.address, controlBy(h), slog.New(slog.NewTextHandler(t.Output(), nil)))
			s.handler.caller = func(context.Context, call) (credentials, error) {
				return credentials{owner: 1000, uid: 1000, groups: groups}, nil
			}
			b.run(s)
			b.owned()
			asked := b.connect()
			answers := make(chan *dbus.Call, 4*maxUserCalls)
			wait := map[string]dbus.Variant{"wait": dbus.MakeVariant(true)}
			await := func(n int) {
				for range n {
					select {
					case <-h.age:
					case call := <-answers:
						t.Fatalf("a waiting request was answered: %v", call.Err)
					case <-testdeadline.After(eventTimeout):
						t.Fatal("a request did not enter the queue")
					}
				}
			}
			for range 3 * maxUserCalls {
				asked.Object(Name, Path).Go(Interface+".Acquire", 0, answers, wait)
				if groups == nil {
					await(1)
				}
			}
			if groups != nil {
				await(3 * maxUserCalls)
			}
			if err := b.connect().Object(Name, Path).Call(Interface+".Release", 0, "x.scope").Err; err != nil {
				t.Errorf("Release with %d waiting requests: %v", 3*maxUserCalls, err)
			}
		})
	}
}
