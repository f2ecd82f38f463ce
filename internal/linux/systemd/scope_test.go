package systemd

import (
	"errors"
	"math"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/godbus/dbus/v5"
	"github.com/google/go-cmp/cmp"
)

// A signal that arrives during a call may be newer than the state in the reply.
func TestStartDone_EndsDuringRead(t *testing.T) {
	p := startPID1(t)
	p.set("a.scope", "inactive/dead*", "")
	c, ctx := p.dial()
	e := c.transport.signals.add()
	e.markGap()
	p.mu.Lock() // PID 1 calls it with the lock held
	p.amid = func(n int) {
		if n > 1 {
			return
		}
		p.units["a.scope"].ActiveState, p.units["a.scope"].JobId = "active", 0
		e.mu.Lock()
		e.results["/job/1"] = "done"
		e.mu.Unlock()
		e.notify()
	}
	p.mu.Unlock()
	if err := e.awaitJob(ctx, "/job/1", c.Transients.startDone(ctx, "a.scope")); err != nil {
		t.Error(err)
	}
}

func TestStartDone_ProcessExited(t *testing.T) {
	p := startPID1(t)
	c, ctx := p.dial()
	e := c.transport.signals.add()
	e.results["/job/1"] = "done"
	if err := e.awaitJob(ctx, "/job/1", c.Transients.startDone(ctx, "a.scope")); err == nil || !errors.Is(err, ErrNoProcess) {
		t.Errorf("startDone after the exit of the process: %v", err)
	}
}

// During the start there are no calls before a signal.
func TestStartDone_NoCallBeforeSignal(t *testing.T) {
	p := startPID1(t)
	p.set("a.scope", "inactive/dead*", "")
	c, ctx := p.dial()
	e := c.transport.signals.add()
	asked := 0
	p.mu.Lock()
	p.amid = func(int) { asked++ }
	p.mu.Unlock()
	up := make(chan error, 1)
	go func() { up <- e.awaitJob(ctx, "/job/1", c.Transients.startDone(ctx, "a.scope")) }()
	for range 3 { // further signals of the unit; after the third, the first is handled
		select {
		case e.wake <- struct{}{}:
		case err := <-up:
			t.Fatalf("StartScope returned %v before the start was over", err)
		}
	}
	p.set("a.scope", "active/running", "")
	e.mu.Lock()
	e.results["/job/1"] = "done"
	e.mu.Unlock()
	e.notify()
	err := <-up
	p.mu.Lock()
	defer p.mu.Unlock()
	if err != nil || asked != 1 {
		t.Errorf("%d calls, %v", asked, err)
	}
}

// A container engine that runs in a lease or in a service with a reservation creates the device
// nodes in the container (mknod), so the permission m is needed.
func TestScope_DevicePermissions(t *testing.T) {
	for _, p := range (Scope{Name: "a.scope", Allow: []string{"/dev/kfd", "/dev/dri/renderD129"}}).properties() {
		if p.Name != "DeviceAllow" {
			continue
		}
		for _, allow := range p.Value.Value().([]permission) {
			if allow.Access != "rwm" {
				t.Errorf("a lease has %s %s", allow.Path, allow.Access)
			}
		}
	}
	o := Order{Reserved: []Reserved{{Unit: "a.service", Name: "a", Count: 1, CompanionLinks: 1}}}
	for line := range strings.Lines(o.Dropins()["a.service.d/50-dcm.conf"]) {
		if line = strings.TrimSpace(line); strings.HasPrefix(line, "DeviceAllow=/") && !strings.HasSuffix(line, " rwm") {
			t.Errorf("a reservation has %s", line)
		}
	}
}

// Package dbusconn tests the passing of the descriptor: the library of this stand-in does not support
// it.
func TestScope_PIDFD(t *testing.T) {
	for _, tt := range []struct {
		scope Scope
		want  map[string]any
	}{
		{Scope{PID: 7}, map[string]any{"PIDs": []uint32{7}}},
		{Scope{PID: 7, PIDFD: os.Stdin}, map[string]any{"PIDFDs": []dbus.UnixFDIndex{0}}},
	} {
		got := make(map[string]any)
		for _, p := range tt.scope.properties() {
			if strings.HasPrefix(p.Name, "PID") {
				got[p.Name] = p.Value.Value()
			}
		}
		if diff := cmp.Diff(tt.want, got); diff != "" {
			t.Errorf("(-want +got):\n%s", diff)
		}
	}
}

func TestPIDFDs_Version(t *testing.T) {
	for version, want := range map[string]bool{"252.39-1~deb12u1": false, "254": true, "257.9-1~deb13u1": true} {
		p := startPID1(t)
		p.mu.Lock()
		p.version = version
		p.mu.Unlock()
		c, ctx := p.dial()
		if got, err := c.Transients.PIDFDs(ctx); got != want || err != nil {
			t.Errorf("%q: %t, %v", version, got, err)
		}
	}
}

func TestServiceOf(t *testing.T) {
	p := startPID1(t)
	p.set("a.service", "active/running", "")
	p.set("b.service", "active/running", "")
	p.property("b.service", "MainPID", uint32(7))
	p.property("a.service", "ControlPID", uint32(8))
	c, ctx := p.dial()
	for pid, want := range map[uint32]string{7: "b.service", 8: "a.service", 9: ""} {
		if got, err := c.Processes.ServiceOf(ctx, pid); got != want || err != nil {
			t.Errorf("process %d: %q, %v", pid, got, err)
		}
	}
}

func TestTerms(t *testing.T) {
	p := startPID1(t)
	began := time.Date(2026, 11, 22, 12, 0, 0, 0, time.UTC)
	for name, limit := range map[string]uint64{"limited.scope": uint64(2 * time.Hour / time.Microsecond), "lasting.scope": math.MaxUint64} {
		p.set(name, "active/running", "")
		p.property(name, "RuntimeMaxUSec", limit)
		p.property(name, "ActiveEnterTimestamp", uint64(began.UnixMicro()))
	}
	c, ctx := p.dial()
	got, err := c.Transients.Terms(ctx, []string{"limited.scope", "ended.scope", "lasting.scope"})
	want := map[string]Term{"limited.scope": {began.Local(), 2 * time.Hour}, "lasting.scope": {began.Local(), 0}}
	if diff := cmp.Diff(want, got); diff != "" || err != nil {
		t.Errorf("%v, (-want +got):\n%s", err, diff)
	}
}
