package systemd

import (
	"strings"
	"testing"
)

// What is heard while PID 1 answers may be news that the answer has not.
func TestAScopeIsUpWhoseStartEndsUnderTheLook(t *testing.T) {
	p := startPID1(t)
	p.set("a.scope", "inactive/dead*", "")
	c, ctx := p.dial()
	e := c.hub.listen()
	e.miss()
	p.mu.Lock() // PID 1 runs by now, and calls it with the lock held
	p.amid = func(n int) {
		if n > 1 {
			return
		}
		p.units["a.scope"].ActiveState, p.units["a.scope"].JobId = "active", 0
		e.mu.Lock()
		e.jobs["/job/1"] = "done"
		e.mu.Unlock()
		e.ring()
	}
	p.mu.Unlock()
	if err := c.scopeUp(ctx, "a.scope", "/job/1", e); err != nil {
		t.Error(err)
	}
}

func TestAScopeIsNotUpWhoseProcessHasEnded(t *testing.T) {
	p := startPID1(t)
	c, ctx := p.dial()
	e := c.hub.listen()
	e.jobs["/job/1"] = "done"
	if err := c.scopeUp(ctx, "a.scope", "/job/1", e); err == nil || !strings.Contains(err.Error(), "the process has ended") {
		t.Errorf("the end is %v", err)
	}
}

// PID 1 has enough to do while it starts something.
func TestNobodyAsksBeforeThereIsNews(t *testing.T) {
	p := startPID1(t)
	p.set("a.scope", "inactive/dead*", "")
	c, ctx := p.dial()
	e := c.hub.listen()
	asked := 0
	p.mu.Lock()
	p.amid = func(int) { asked++ }
	p.mu.Unlock()
	up := make(chan error, 1)
	go func() { up <- c.scopeUp(ctx, "a.scope", "/job/1", e) }()
	for range 3 { // other steps of the unit's: with the third the first is behind it
		select {
		case e.wake <- struct{}{}:
		case err := <-up:
			t.Fatalf("before the end of the start it returns %v", err)
		}
	}
	p.set("a.scope", "active/running", "")
	e.mu.Lock()
	e.jobs["/job/1"] = "done"
	e.mu.Unlock()
	e.ring()
	err := <-up
	p.mu.Lock()
	defer p.mu.Unlock()
	if err != nil || asked != 1 {
		t.Errorf("it was asked %d times, %v", asked, err)
	}
}

// A container engine makes the nodes in the container anew (mknod), in a lease as in a
// service with a reservation.
func TestWhoHasAPartitionMayMakeItsNode(t *testing.T) {
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
	o := Order{Reserved: []Reserved{{Unit: "a.service", Name: "a", Count: 1, Beside: 1}}}
	for line := range strings.Lines(o.Dropins()["a.service.d/50-dcm.conf"]) {
		if line = strings.TrimSpace(line); strings.HasPrefix(line, "DeviceAllow=/") && !strings.HasSuffix(line, " rwm") {
			t.Errorf("a reservation has %s", line)
		}
	}
}
