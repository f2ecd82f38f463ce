package systemd

import "testing"

func TestReloads_WakesForReloadsAlone(t *testing.T) {
	p := startPID1(t)
	p.set("a.service", "active/running", "0a")
	c, ctx := p.dial()
	reloaded, stop, err := c.Manager.Reloads(ctx)
	if err != nil {
		t.Fatal(err)
	}
	defer stop()
	p.signal("a.service", "active/exited", "0a")
	// The answer comes after the signal, in which order the bus keeps them.
	if _, err := c.Units.List(ctx, []string{"a.service"}, All); err != nil {
		t.Fatal(err)
	}
	select {
	case <-reloaded:
		t.Error("a change of a unit woke")
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
			t.Fatalf("%s did not wake", e.name)
		}
	}
}
