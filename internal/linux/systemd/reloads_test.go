package systemd

import "testing"

func TestReloads(t *testing.T) {
	p := startPID1(t)
	p.set("a.service", "active/running", "0a")
	c, ctx := p.dial()
	reloaded, stop, err := c.Manager.Reloads(ctx)
	if err != nil {
		t.Fatal(err)
	}
	defer stop()
	p.signal("a.service", "active/exited", "0a")
	// The bus delivers the reply after the signal.
	if _, err := c.Units.List(ctx, []string{"a.service"}, All); err != nil {
		t.Fatal(err)
	}
	select {
	case <-reloaded:
		t.Error("signal for a change of a unit")
	default:
	}
	for _, e := range []struct {
		name string
		do   func()
	}{
		{"a reload", func() { p.emit(managerPath, managerInterface+".Reloading", false) }},
		{"a daemon-reexec", func() { p.vanish(); p.appear() }},
	} {
		e.do()
		select {
		case <-reloaded:
		case <-ctx.Done():
			t.Fatalf("no signal for %s", e.name)
		}
	}
}
