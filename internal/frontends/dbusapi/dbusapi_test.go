package dbusapi

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/godbus/dbus/v5"

	"dcm/internal/frontends/status"
	"dcm/internal/linux/dbusconn"
	"dcm/internal/testkit/testdeadline"
)

// eventTimeout limits each wait. Only a failing test reaches it.
const eventTimeout = 20 * time.Second

// broker is a message bus for one test. A restart keeps its address.
type broker struct {
	testing.TB
	dir, address string
	cmd          *exec.Cmd
}

func startBus(t testing.TB) *broker {
	t.Helper()
	if _, err := exec.LookPath("dbus-daemon"); err != nil {
		t.Skip("needs dbus-daemon, which is not installed")
	}
	// Not t.TempDir: the name of the test would have to be escaped in an address.
	dir, err := os.MkdirTemp("", "bus")
	if err != nil {
		t.Fatal(err)
	}
	b := &broker{TB: t, dir: dir, address: "unix:path=" + filepath.Join(dir, "bus")}
	t.Cleanup(func() { b.stop(); os.RemoveAll(dir) })
	config := `<busconfig><type>session</type><listen>` + b.address + `</listen>
<policy context="default"><allow send_destination="*"/><allow receive_sender="*"/><allow own="*"/></policy></busconfig>`
	if err := os.WriteFile(filepath.Join(dir, "bus.conf"), []byte(config), 0o600); err != nil {
		t.Fatal(err)
	}
	b.start()
	return b
}

func (b *broker) start() {
	b.Helper()
	cmd := exec.Command("dbus-daemon", "--nofork", "--print-address", "--config-file="+filepath.Join(b.dir, "bus.conf"))
	cmd.Stderr = b.Output()
	out, err := cmd.StdoutPipe()
	if err != nil {
		b.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		b.Fatal(err)
	}
	b.cmd = cmd
	if _, err := bufio.NewReader(out).ReadString('\n'); err != nil {
		b.Fatal(err)
	}
}

func (b *broker) stop() {
	if b.cmd != nil {
		b.cmd.Process.Kill()
		b.cmd.Wait()
		os.Remove(filepath.Join(b.dir, "bus"))
		b.cmd = nil
	}
}

// connect returns a connection to the bus.
func (b *broker) connect() *dbus.Conn {
	b.Helper()
	conn, err := dbus.Connect(b.address)
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { conn.Close() })
	return conn
}

// join returns a connection that can receive file descriptors.
func (b *broker) join() *dbusconn.Conn {
	b.Helper()
	conn, err := dbusconn.Join(b.Context(), b.address, nil)
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { conn.Close() })
	return conn
}

// owned waits until the daemon's name has an owner.
func (b *broker) owned() {
	b.Helper()
	conn := b.connect()
	changes := make(chan *dbus.Signal, 10)
	conn.Signal(changes)
	if err := conn.AddMatchSignal(dbus.WithMatchMember("NameOwnerChanged"), dbus.WithMatchArg(0, Name)); err != nil {
		b.Fatal(err)
	}
	deadline := testdeadline.After(eventTimeout)
	for {
		var owned bool
		if err := conn.BusObject().Call(busName+".NameHasOwner", 0, Name).Store(&owned); err != nil {
			b.Fatal(err)
		}
		if owned {
			return
		}
		select {
		case <-changes:
		case <-deadline:
			b.Fatal("the bus name has no owner")
		}
	}
}

// anyService serves every call.
type anyService interface {
	ProfileService
	Planner
	DocumentService
	LeaseService
	QueueService
}

func controlBy(s anyService) Control { return Control{s, s, s, s, s} }

// desk is a [Control] that records its calls.
type desk struct {
	mu     sync.Mutex
	called []string
	state  string
	err    error
	wait   chan struct{} // Plan waits until it is closed. Acquire sends to it at its begin, and when its caller has disconnected
}

func (d *desk) note(what string) (string, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.called = append(d.called, what)
	return d.state, d.err
}

// answer sets the answers of later calls.
func (d *desk) answer(state string, err error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.state, d.err = state, err
}

func (d *desk) did() string {
	d.mu.Lock()
	defer d.mu.Unlock()
	return strings.Join(d.called, " ")
}

func (d *desk) Apply(context.Context, Caller) (string, error) { return d.note("apply") }
func (d *desk) Use(_ context.Context, _ Caller, s Selection) (string, error) {
	if s.Confirm > 0 {
		return d.note(fmt.Sprintf("use until confirmed within %s:%s", s.Confirm, s.Profile))
	}
	if s.UntilReboot {
		return d.note("use until reboot:" + s.Profile)
	}
	return d.note("use:" + s.Profile)
}
func (d *desk) Confirm(_ context.Context, _ Caller, p string) error {
	_, err := d.note("confirm:" + p)
	return err
}

func (d *desk) Known(p string) error {
	if p != "cpx" {
		return fmt.Errorf("%s: no such profile", p)
	}
	return nil
}
func (d *desk) Reload(context.Context, Caller) error { _, err := d.note("reload"); return err }

func (d *desk) Plans(context.Context) (string, error) { return d.note("plans") }

func (d *desk) Member(groups []uint32) bool { return slices.Contains(groups, desksGroup) }

// desksGroup is the group whose members may have leases.
const desksGroup = 77

func (d *desk) Acquire(ctx context.Context, who Caller, w Request) (Lease, error) {
	if who.Process == nil || who.Process.PID != os.Getpid() || !who.Process.Alive() {
		return Lease{}, errors.New("another process is identified")
	}
	_, err := d.note(fmt.Sprintf("acquire:%d:%d", w.Partitions, w.Time/time.Second))
	if d.wait != nil {
		w.Queued(QueuePosition{2, 3, "0 are free"})
		d.wait <- struct{}{}
		<-ctx.Done()
		close(d.wait)
	}
	return Lease{"dcm-lease-1000-4f1c09aa.scope", []string{"0000:05:00.0-3"}, "1 of 0000:05:00.0", []string{"a note"}}, err
}

func (d *desk) Release(_ context.Context, who Caller, lease string) error {
	_, err := d.note(fmt.Sprintf("release:%s:%d", lease, who.UID))
	return err
}

func (d *desk) Enter(_ context.Context, who Caller, lease string) ([]string, error) {
	if who.Process == nil || who.Process.PID != os.Getpid() {
		return nil, errors.New("another process is identified")
	}
	_, err := d.note(fmt.Sprintf("enter:%s:%d", lease, who.UID))
	return []string{"0000:05:00.0-3"}, err
}

func (d *desk) Extend(_ context.Context, who Caller, lease string, limit time.Duration) error {
	_, err := d.note(fmt.Sprintf("extend:%s:%s:%d", lease, limit, who.UID))
	return err
}

func (d *desk) Queue() []status.Queued {
	return []status.Queued{{Position: 1, ID: 4711, User: "ada", Partitions: 3}}
}

func (d *desk) Dequeue(who Caller, id int) error {
	_, err := d.note(fmt.Sprintf("dequeue:%d:%d", id, who.UID))
	return err
}

func (d *desk) Account(context.Context) (string, error) { return `{"version":1}`, nil }
func (d *desk) History(context.Context) (string, error) {
	_, err := d.note("history")
	return `[]`, err
}
func (d *desk) Usage(context.Context) (string, error) { return `{"version":1,"partitions":[]}`, nil }

func (d *desk) Plan(ctx context.Context, _ Caller, profile string) (Plan, error) {
	if d.wait != nil {
		<-d.wait
	}
	_, err := d.note("plan:" + profile)
	return Plan{Profile: "cpx", Clients: []string{"a.service"}, Steps: []Step{
		{Kind: "memory", Devices: []string{"0000:05:00.0", "0000:26:00.0"}, From: "NPS1", To: "NPS4"}, {Kind: "reload"},
	}, Rounds: []Round{{GPUs: []string{"0000:05:00.0"}, Clients: []string{"a.service"}}}, Waits: "b.service is down"}, err
}

// serve runs a service for which every caller is the user uid.
func (b *broker) serve(d *desk, uid uint32) (*Service, chan<- struct{}) {
	b.Helper()
	return b.serveAs(d, func(string) uint32 { return uid })
}

// serveAs is serve with a function that returns the user of a connection.
func (b *broker) serveAs(d *desk, uid func(sender string) uint32) (*Service, chan<- struct{}) {
	b.Helper()
	s := New(b.address, controlBy(d), slog.New(slog.NewTextHandler(b.Output(), nil)))
	callers := new(credentialsCache)
	s.handler.caller = func(ctx context.Context, c call) (credentials, error) {
		who, err := callers.of(ctx, c.conn, c.sender)
		who.uid = uid(c.sender)
		who.owner = who.uid
		return who, err
	}
	return s, b.run(s)
}

// run runs a service until the test ends.
func (b *broker) run(s *Service) (appeared chan<- struct{}) {
	ctx, cancel := context.WithCancel(b.Context())
	ended, signs := make(chan struct{}), make(chan struct{}, 1)
	go func() { defer close(ended); s.Run(ctx, signs) }()
	b.Cleanup(func() { cancel(); <-ended })
	return signs
}

// authority is a polkit that allows some actions.
type authority struct {
	mu      sync.Mutex
	allowed map[string]bool
	called  []string
}

// signals returns the recorded requests.
func (a *authority) signals() string {
	a.mu.Lock()
	defer a.mu.Unlock()
	return strings.Join(a.called, " ")
}

func (b *broker) polkit(a *authority) {
	b.Helper()
	conn := b.connect()
	check := func(who subject, action string, details map[string]string, flags uint32, _ string) (struct {
		Authorised, Challenge bool
		Details               map[string]string
	}, *dbus.Error) {
		a.mu.Lock()
		defer a.mu.Unlock()
		name, _ := who.Details["name"].Value().(string)
		known := who.Kind == "system-bus-name" && strings.HasPrefix(name, ":")
		word := action[strings.LastIndex(action, ".")+1:]
		if flags&1 != 0 {
			word += "!"
		}
		if p := details["profile"]; p != "" {
			word += ":" + p
		}
		a.called = append(a.called, word)
		return struct {
			Authorised, Challenge bool
			Details               map[string]string
		}{known && a.allowed[action], !a.allowed[action], map[string]string{}}, nil
	}
	if err := conn.ExportMethodTable(map[string]any{"CheckAuthorization": check}, polkitPath, polkitAuthority); err != nil {
		b.Fatal(err)
	}
	if _, err := conn.RequestName(polkit, dbus.NameFlagDoNotQueue); err != nil {
		b.Fatal(err)
	}
}
