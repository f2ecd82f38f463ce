package dbusapi

import (
	"context"
	"errors"
	"log/slog"
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"
	"unsafe"

	"github.com/godbus/dbus/v5"
	"github.com/google/go-cmp/cmp"

	"dcm/internal/frontends/admission"
	"dcm/internal/linux/caller"
)

func TestFairQueue_Turns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		turns := newFairQueue()
		var order []uint32
		wait := make(chan struct{})
		for _, uid := range []uint32{1, 1, 1, 2, 2, 3, 0} {
			go func() {
				leave, err := turns.take(t.Context(), uid)
				if err != nil {
					t.Error(err)
					return
				}
				<-wait
				order = append(order, uid)
				leave()
			}()
			synctest.Wait()
		}
		gone, cancel := context.WithCancel(t.Context())
		cancel()
		if _, err := turns.take(gone, 2); !errors.Is(err, context.Canceled) {
			t.Errorf("a call whose context has ended: %v", err)
		}
		for range 7 {
			wait <- struct{}{}
			synctest.Wait()
		}
		// Root's call ran concurrently with the first one.
		if diff := cmp.Diff([]uint32{1, 0, 2, 3, 1, 2, 1}, order); diff != "" {
			t.Errorf("order (-want +got):\n%s", diff)
		}
		if len(turns.users) > 0 {
			t.Errorf("number of remembered users: %d, want 0", len(turns.users))
		}
	})
}

func TestCredentials_Cached(t *testing.T) {
	b := startBus(t)
	own, other := b.join(), b.connect()
	var c credentialsCache
	first, err := c.of(t.Context(), own, other.Names()[0])
	if err != nil || first.uid != uint32(os.Getuid()) || first.owner != first.uid || first.pid != os.Getpid() || !slices.Contains(first.groups, uint32(os.Getgid())) {
		t.Errorf("credentials: got %+v, %v", first, err)
	}
	if first.process == nil || first.process.PID != os.Getpid() || !first.process.Alive() {
		t.Errorf("process: got %+v", first.process)
	}
	b.stop()
	again, err := c.of(t.Context(), own, other.Names()[0])
	first.process = nil
	if diff := cmp.Diff(first, again, cmp.AllowUnexported(credentials{})); diff != "" || err != nil {
		t.Errorf("second call: %v, (-want +got):\n%s", err, diff)
	}
}

// The library decodes the strings of a message into buffers of 4 KiB. A cached name that is part of
// one would retain all of it.
func TestCredentials_MessagesNotRetained(t *testing.T) {
	b := startBus(t)
	own, other := b.join(), b.connect()
	var c credentialsCache
	message := append(make([]byte, 0, 4<<10), other.Names()[0]...)
	if _, err := c.of(t.Context(), own, unsafe.String(&message[0], len(message))); err != nil {
		t.Fatal(err)
	}
	for name := range c.known {
		if unsafe.StringData(name) == &message[0] {
			t.Error("the cached name is a part of the message")
		}
	}
	if len(c.known) != 1 {
		t.Errorf("%d names are cached, want 1", len(c.known))
	}
}

// A restarted bus uses the same unique names for other connections.
func TestCredentials_OtherBus(t *testing.T) {
	b := startBus(t)
	own, second, other := b.join(), b.join(), b.connect()
	c := credentialsCache{conn: own.Conn, known: map[string]credentials{other.Names()[0]: {uid: 0, pid: 1}}}
	if who, err := c.of(t.Context(), second, other.Names()[0]); err != nil || who.pid != os.Getpid() {
		t.Errorf("credentials: got %+v, %v", who, err)
	}
}

// Two users on one bus: the first one plans in an endless loop.
func TestFlood_OneUser(t *testing.T) {
	b := startBus(t)
	d := &desk{wait: make(chan struct{})}
	flood, other := b.connect(), b.connect()
	users := map[string]uint32{flood.Names()[0]: 1000, other.Names()[0]: 1001}
	b.serveAs(d, func(sender string) uint32 { return users[sender] })
	b.owned()
	ended := make(chan *dbus.Call, 4*maxUserCalls)
	for range 4 * maxUserCalls {
		flood.Object(Name, Path).Go(Interface+".Plan", 0, ended, "flood")
	}
	var remote dbus.Error
	for range 3 * maxUserCalls {
		if err := (<-ended).Err; !errors.As(err, &remote) || remote.Name != errorLimit {
			t.Fatalf("one call above the limit: %v", err)
		}
	}
	asked := other.Object(Name, Path).Go(Interface+".Plan", 0, make(chan *dbus.Call, 1), "other")
	if err := b.connect().Object(Name, Path).Call(Interface+".Apply", 0).Err; err != nil {
		t.Errorf("root's call: %v", err)
	}
	close(d.wait)
	if err := (<-asked.Done).Err; err != nil {
		t.Errorf("call of another user: %v", err)
	}
	for range maxUserCalls {
		if err := (<-ended).Err; err != nil {
			t.Error(err)
		}
	}
}

// A rejected caller can retry.
func TestClient_ErrCrowded(t *testing.T) {
	b := startBus(t)
	d := &desk{wait: make(chan struct{})}
	flood := b.connect()
	b.serve(d, 1000)
	b.owned()
	ended := make(chan *dbus.Call, maxUserCalls+1)
	for range maxUserCalls + 1 {
		flood.Object(Name, Path).Go(Interface+".Plan", 0, ended, "flood")
	}
	<-ended // the call above the limit
	c, err := Dial(t.Context(), b.address)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	if _, err := c.Acquire(t.Context(), Request{}); !errors.Is(err, ErrCrowded) || !strings.Contains(err.Error(), "too many of your calls") {
		t.Errorf("one call above the limit: got %v", err)
	}
	close(d.wait)
	for range maxUserCalls {
		<-ended
	}
}

// As many users as the limits permit make as many calls as one user may make. Root is served
// immediately, and all others after the first call ends.
func TestFlood_ManyUsers(t *testing.T) {
	b := startBus(t)
	d := &desk{wait: make(chan struct{})}
	users := make(map[string]uint32)
	var floods []*dbus.Conn
	for i := range maxCalls / maxUserCalls {
		c := b.connect()
		floods, users[c.Names()[0]] = append(floods, c), uint32(1000+i)
	}
	other := b.connect()
	users[other.Names()[0]] = 2000
	b.serveAs(d, func(sender string) uint32 { return users[sender] })
	b.owned()
	ended := make(chan *dbus.Call, maxCalls+len(floods))
	for _, c := range floods {
		for range maxUserCalls + 1 {
			c.Object(Name, Path).Go(Interface+".Plan", 0, ended, "flood")
		}
	}
	var remote dbus.Error
	for range floods { // each user makes one call above the limit; the others are running
		if err := (<-ended).Err; !errors.As(err, &remote) || remote.Name != errorLimit {
			t.Fatalf("one call above the limit: %v", err)
		}
	}
	if err := other.Object(Name, Path).Call(Interface+".Plan", 0, "other").Err; !errors.As(err, &remote) || remote.Name != errorLimit {
		t.Errorf("one call above the limit of all users: %v", err)
	}
	root := b.connect()
	for range 2 * maxUserCalls {
		if err := root.Object(Name, Path).Call(Interface+".Apply", 0).Err; err != nil {
			t.Fatalf("root's call: %v", err)
		}
	}
	close(d.wait)
	for range maxCalls {
		if err := (<-ended).Err; err != nil {
			t.Fatal(err)
		}
	}
	if err := other.Object(Name, Path).Call(Interface+".Plan", 0, "other").Err; err != nil {
		t.Errorf("after the flood: %v", err)
	}
}

func TestMethods_Admission(t *testing.T) {
	b := startBus(t)
	d := &desk{}
	s := New(b.address, controlBy(d), slog.New(slog.NewTextHandler(t.Output(), nil)))
	s.handler.limiter = admission.New(admission.Limits{RootExempt: true})
	s.handler.caller = func(context.Context, call) (credentials, error) {
		return credentials{owner: 1000, uid: 1000, groups: []uint32{desksGroup}}, nil
	}
	b.run(s)
	b.owned()
	object := b.connect().Object(Name, Path)
	o, _ := s.tree.latest().at(Path)
	for _, i := range o.interfaces() {
		for _, m := range i.methods {
			var args []any
			for _, in := range m.in {
				args = append(args, map[string]any{"s": "cpx", "u": uint32(4711), "t": uint64(1), "b": true, "v": dbus.MakeVariant(1), "a{sv}": map[string]dbus.Variant{"wait": dbus.MakeVariant(true)}}[in.kind])
			}
			var remote dbus.Error
			if err := object.Call(i.name+"."+m.name, 0, args...).Err; !errors.As(err, &remote) || remote.Name != errorLimit {
				t.Errorf("%s.%s: %v", i.name, m.name, err)
			}
		}
	}
	if did := d.did(); did != "" {
		t.Errorf("calls of the daemon without admission: %q", did)
	}
}

func TestAcquire_Kind(t *testing.T) {
	yes, profile := dbus.MakeVariant(true), dbus.MakeVariant("3g.40gb")
	for _, tt := range []struct {
		options map[string]dbus.Variant
		want    admission.Kind
	}{
		{map[string]dbus.Variant{"wait": yes}, admission.Lease},
		{map[string]dbus.Variant{"dry-run": yes}, admission.Query},
		{map[string]dbus.Variant{"make": profile}, admission.Make},
		{map[string]dbus.Variant{"make": profile, "wait": yes}, admission.Make},
		{map[string]dbus.Variant{"make": profile, "dry-run": yes}, admission.Query},
		{map[string]dbus.Variant{"make": dbus.MakeVariant("")}, admission.Lease},
		{map[string]dbus.Variant{"make": yes}, admission.Lease},
	} {
		if got := (call{body: []any{tt.options}}).acquireKind(); got != tt.want {
			t.Errorf("kind with %v: got %s, want %s", tt.options, got, tt.want)
		}
	}
}

// A user who creates many instances is delayed, and other requests of the same user are not.
func TestLimiter_MakesPerMinute(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLimiter()
		began := time.Now()
		for i := range maxUserMakes + 15 {
			enter := l.Enter
			if i%2 == 1 {
				enter = l.Join
			}
			leave, err := enter(t.Context(), 1000, admission.Make)
			if err != nil {
				t.Fatal(err)
			}
			leave()
		}
		if took := time.Since(began); took != time.Minute {
			t.Errorf("time for %d makes: got %s, want 1m", maxUserMakes+15, took)
		}
		began = time.Now()
		for _, other := range []struct {
			uid  uint32
			kind admission.Kind
		}{{1000, admission.Lease}, {1001, admission.Make}, {0, admission.Make}} {
			leave, err := l.Enter(t.Context(), other.uid, other.kind)
			if err != nil {
				t.Fatal(err)
			}
			leave()
		}
		if took := time.Since(began); took != 0 {
			t.Errorf("other requests are delayed by %s", took)
		}
	})
}

// The process that made a connection may have ended after it passed the connection to another
// process. Then the owner of the caller is not known.
func TestCredentials_EndedProcess(t *testing.T) {
	ended := exec.Command("true")
	if err := ended.Run(); err != nil {
		t.Fatal(err)
	}
	who := identified(credentials{uid: 1000, pid: ended.Process.Pid}, nil)
	if who.owner != caller.Unidentified || who.process != nil {
		t.Errorf("credentials: got %+v", who)
	}
	if root := identified(credentials{pid: ended.Process.Pid}, nil); root.owner != 0 {
		t.Errorf("credentials of root: got %+v", root)
	}
}
