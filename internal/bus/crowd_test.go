package bus

import (
	"context"
	"errors"
	"os"
	"slices"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/godbus/dbus/v5"
	"github.com/google/go-cmp/cmp"
)

func TestOneUsersCallsKeepNobodyElseOut(t *testing.T) {
	var c crowd
	var leaves []func()
	for range ofOne {
		leave, err := c.enter(1000)
		if err != nil {
			t.Fatal(err)
		}
		leaves = append(leaves, leave)
	}
	if _, err := c.enter(1000); err == nil {
		t.Error("one more was let in")
	}
	for _, uid := range []uint32{1001, 0} {
		if leave, err := c.enter(uid); err != nil {
			t.Errorf("user %d is kept out by another: %v", uid, err)
		} else {
			leave()
		}
	}
	leaves[0]()
	if _, err := c.enter(1000); err != nil {
		t.Errorf("after one has left: %v", err)
	}
	for uid := uint32(2000); ; uid++ { // the same with many numbers
		if _, err := c.enter(uid); err != nil {
			break
		}
		if uid > 2000+ofAll {
			t.Fatal("there is no end to them")
		}
	}
	if _, err := c.enter(0); err != nil {
		t.Errorf("root is kept out: %v", err)
	}
}

func TestTheLineHasAnEnd(t *testing.T) {
	var c crowd
	var ends []func()
	for _, uid := range []uint32{1000, 1001, 1002} {
		for i := range inLineOfOne + 1 {
			quit, err := c.join(uid)
			if full := i == inLineOfOne || uid == 1002; (err != nil) != full {
				t.Fatalf("user %d with %d in line: %v", uid, i, err)
			} else if !full {
				ends = append(ends, quit)
			}
		}
	}
	if _, err := c.join(0); err != nil {
		t.Errorf("root is kept out: %v", err)
	}
	for _, end := range ends {
		end()
	}
	if len(c.inLine)+c.line > 0 {
		t.Errorf("left are %v, %d", c.inLine, c.line)
	}
}

func TestUsersTakeTurns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		turns := newTurns()
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
			t.Errorf("who does not wait any longer: %v", err)
		}
		for range 7 {
			wait <- struct{}{}
			synctest.Wait()
		}
		// The first and root's were at it together.
		if diff := cmp.Diff([]uint32{1, 0, 2, 3, 1, 2, 1}, order); diff != "" {
			t.Errorf("order (-want +got):\n%s", diff)
		}
		if len(turns.users) > 0 {
			t.Errorf("%d are remembered", len(turns.users))
		}
	})
}

func TestTheBusIsAskedOnceWhoACallerIs(t *testing.T) {
	b := startBus(t)
	own, other := b.connect(), b.connect()
	var c callers
	first, err := c.of(t.Context(), own, other.Names()[0])
	if err != nil || first.uid != uint32(os.Getuid()) || first.pid != os.Getpid() || !slices.Contains(first.groups, uint32(os.Getgid())) {
		t.Errorf("it is %+v, %v", first, err)
	}
	b.stop()
	again, err := c.of(t.Context(), own, other.Names()[0])
	if diff := cmp.Diff(first, again, cmp.AllowUnexported(credentials{})); diff != "" || err != nil {
		t.Errorf("later it is, %v, (-want +got):\n%s", err, diff)
	}
}

// Two users on one bus: the first plans without end.
func TestAFloodByOneUserLeavesOthersServed(t *testing.T) {
	b := startBus(t)
	d := &desk{wait: make(chan struct{})}
	flood, other := b.connect(), b.connect()
	users := map[string]uint32{flood.Names()[0]: 1000, other.Names()[0]: 1001}
	b.serveAs(d, func(sender string) uint32 { return users[sender] })
	b.owned()
	ended := make(chan *dbus.Call, 4*ofOne)
	for range 4 * ofOne {
		flood.Object(Name, Path).Go(Interface+".Plan", 0, ended, "flood")
	}
	var remote dbus.Error
	for range 3 * ofOne {
		if err := (<-ended).Err; !errors.As(err, &remote) || remote.Name != errorLimit {
			t.Fatalf("one too many: %v", err)
		}
	}
	asked := other.Object(Name, Path).Go(Interface+".Plan", 0, make(chan *dbus.Call, 1), "other")
	if err := b.connect().Object(Name, Path).Call(Interface+".Apply", 0).Err; err != nil {
		t.Errorf("root is kept out by the others: %v", err)
	}
	close(d.wait)
	if err := (<-asked.Done).Err; err != nil {
		t.Errorf("another user is kept out by the first: %v", err)
	}
	for range ofOne {
		if err := (<-ended).Err; err != nil {
			t.Error(err)
		}
	}
}

// Another try may be let in.
func TestAClientKnowsThatItWasOneTooMany(t *testing.T) {
	b := startBus(t)
	d := &desk{wait: make(chan struct{})}
	flood := b.connect()
	b.serve(d, 1000)
	b.owned()
	ended := make(chan *dbus.Call, ofOne+1)
	for range ofOne + 1 {
		flood.Object(Name, Path).Go(Interface+".Plan", 0, ended, "flood")
	}
	<-ended // the one too many
	c, err := Dial(t.Context(), b.address)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	if _, err := c.Acquire(t.Context(), Want{}); !errors.Is(err, ErrCrowded) || !strings.Contains(err.Error(), "too many of your calls") {
		t.Errorf("it is told %v", err)
	}
	close(d.wait)
	for range ofOne {
		<-ended
	}
}

// As many users as fill all the places, each with as many calls as one may have: root is
// served at once, and all others when the first of them leaves.
func TestAFloodByManyUsersLeavesRootServed(t *testing.T) {
	b := startBus(t)
	d := &desk{wait: make(chan struct{})}
	users := make(map[string]uint32)
	var floods []*dbus.Conn
	for i := range ofAll / ofOne {
		c := b.connect()
		floods, users[c.Names()[0]] = append(floods, c), uint32(1000+i)
	}
	other := b.connect()
	users[other.Names()[0]] = 2000
	b.serveAs(d, func(sender string) uint32 { return users[sender] })
	b.owned()
	ended := make(chan *dbus.Call, ofAll+len(floods))
	for _, c := range floods {
		for range ofOne + 1 {
			c.Object(Name, Path).Go(Interface+".Plan", 0, ended, "flood")
		}
	}
	var remote dbus.Error
	for range floods { // one too many of each: the others are inside
		if err := (<-ended).Err; !errors.As(err, &remote) || remote.Name != errorLimit {
			t.Fatalf("one too many: %v", err)
		}
	}
	if err := other.Object(Name, Path).Call(Interface+".Plan", 0, "other").Err; !errors.As(err, &remote) || remote.Name != errorLimit {
		t.Errorf("one too many of all: %v", err)
	}
	root := b.connect()
	for range 2 * ofOne {
		if err := root.Object(Name, Path).Call(Interface+".Apply", 0).Err; err != nil {
			t.Fatalf("root is kept out by the others: %v", err)
		}
	}
	close(d.wait)
	for range ofAll {
		if err := (<-ended).Err; err != nil {
			t.Fatal(err)
		}
	}
	if err := other.Object(Name, Path).Call(Interface+".Plan", 0, "other").Err; err != nil {
		t.Errorf("after the flood: %v", err)
	}
}
