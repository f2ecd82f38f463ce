package systemd

import (
	"context"
	"errors"
	"testing"

	"github.com/godbus/dbus/v5"
	"github.com/google/go-cmp/cmp"
)

const oneshot = "dcm-apply.service"

func TestRestart(t *testing.T) {
	lose := dbus.NewError("org.freedesktop.DBus.Error.NoReply", nil)
	for _, tt := range []struct {
		name     string
		before   string // state and invocation of the unit
		script   func(p *pid1, call int) *dbus.Error
		want     Unit
		err      string
		restarts int
	}{
		{name: "success", before: "active/exited",
			script: func(p *pid1, _ int) *dbus.Error {
				p.signal(oneshot, "deactivating/stop*", "01")
				p.signal(oneshot, "activating/start*", "02")
				p.signal(oneshot, "active/exited", "02")
				p.removed(oneshot, "done")
				return nil
			},
			want: Unit{Active: "active", Sub: "exited", Invocation: "02"}, restarts: 1},
		{name: "success after a while", before: "active/exited",
			script: func(p *pid1, _ int) *dbus.Error {
				p.afterList(func(n int, _ []string) {
					if n == 2 {
						p.signal(oneshot, "active/exited", "02")
						p.removed(oneshot, "done")
					}
				})
				p.signal(oneshot, "activating/start*", "02")
				return nil
			},
			want: Unit{Active: "active", Sub: "exited", Invocation: "02"}, restarts: 1},
		{name: "failure of the run is the unit's state", before: "active/exited",
			script: func(p *pid1, _ int) *dbus.Error {
				p.signal(oneshot, "failed/failed", "02")
				p.removed(oneshot, "failed")
				return nil
			},
			want: Unit{Active: "failed", Sub: "failed", Invocation: "02"}, restarts: 1},
		{name: "failed run with Restart=", before: "active/exited",
			script: func(p *pid1, _ int) *dbus.Error {
				p.signal(oneshot, "activating/auto-restart", "02")
				p.removed(oneshot, "failed")
				return nil
			},
			want: Unit{Active: "activating", Sub: "auto-restart", Invocation: "02"}, restarts: 1},
		{name: "success from failed, with the job's signal first", before: "failed/failed",
			script: func(p *pid1, _ int) *dbus.Error {
				p.set(oneshot, "active/exited", "02")
				p.removed(oneshot, "done")
				return nil
			},
			want: Unit{Active: "active", Sub: "exited", Invocation: "02"}, restarts: 1},
		{name: "no signal of the job at all", before: "active/exited",
			script: func(p *pid1, _ int) *dbus.Error {
				p.signal(oneshot, "activating/start*", "02")
				p.signal(oneshot, "active/exited", "02")
				return nil
			},
			want: Unit{Active: "active", Sub: "exited", Invocation: "02"}, restarts: 1},
		{name: "run requested by another program", before: "active/exited",
			script: func(p *pid1, _ int) *dbus.Error {
				p.removed(oneshot, "canceled")
				p.signal(oneshot, "active/exited", "03")
				return nil
			},
			want: Unit{Active: "active", Sub: "exited", Invocation: "03"}, restarts: 1},
		{name: "canceled", before: "active/exited",
			script: func(p *pid1, _ int) *dbus.Error {
				p.signal(oneshot, "inactive/dead", "01")
				p.removed(oneshot, "canceled")
				return nil
			},
			want: Unit{Active: "inactive", Sub: "dead", Invocation: "01"},
			err:  "the restart of dcm-apply.service was canceled before it ran", restarts: 1},
		{name: "canceled, the signal is late", before: "active/exited",
			script: func(p *pid1, _ int) *dbus.Error {
				p.afterList(func(n int, _ []string) {
					switch n {
					case 2:
						p.signal(oneshot, "active/exited", "01")
					case 3:
						p.removed(oneshot, "canceled")
					}
				})
				p.signal(oneshot, "deactivating/stop*", "01")
				return nil
			},
			want: Unit{Active: "active", Sub: "exited", Invocation: "01"},
			err:  "the restart of dcm-apply.service was canceled before it ran", restarts: 1},
		{name: "canceled, a reexec loses the signal", before: "active/exited",
			script: func(p *pid1, _ int) *dbus.Error {
				p.afterList(func(n int, _ []string) {
					if n == 2 {
						p.vanish()
						p.appear()
					}
				})
				p.signal(oneshot, "active/exited", "01")
				return nil
			},
			want: Unit{Active: "active", Sub: "exited", Invocation: "01"},
			err:  "dcm-apply.service did not run, and systemd was re-executed before it reported the reason", restarts: 1},
		{name: "stopped during the run", before: "active/exited",
			script: func(p *pid1, _ int) *dbus.Error {
				p.set(oneshot, "inactive/dead", "02")
				p.removed(oneshot, "canceled")
				return nil
			},
			want: Unit{Active: "inactive", Sub: "dead", Invocation: "02"},
			err:  "the restart of dcm-apply.service was canceled before it ran", restarts: 1},
		{name: "dependency", before: "failed/failed",
			script: func(p *pid1, _ int) *dbus.Error { p.removed(oneshot, "dependency"); return nil },
			want:   Unit{Active: "failed", Sub: "failed", Invocation: "01"},
			err:    "dcm-apply.service was not restarted: a unit that it requires failed", restarts: 1},
		{name: "timeout", before: "active/exited",
			script: func(p *pid1, _ int) *dbus.Error { p.removed(oneshot, "timeout"); return nil },
			want:   Unit{Active: "active", Sub: "exited", Invocation: "01"},
			err:    "the restart of dcm-apply.service timed out before it ran", restarts: 1},
		{name: "condition", before: "inactive/dead",
			script: func(p *pid1, _ int) *dbus.Error { p.removed(oneshot, "done"); return nil },
			want:   Unit{Active: "inactive", Sub: "dead", Invocation: "01"},
			err:    "dcm-apply.service did not run: one of its conditions is not met", restarts: 1},
		{name: "not installed", before: "inactive/dead",
			script: func(*pid1, int) *dbus.Error {
				return dbus.NewError("org.freedesktop.systemd1.NoSuchUnit", []any{"Unit not found."})
			},
			want: Unit{Active: "inactive", Sub: "dead", Invocation: "01"},
			err:  "cannot restart dcm-apply.service: the unit is not installed", restarts: 1},
		{name: "masked", before: "inactive/dead",
			script: func(*pid1, int) *dbus.Error {
				return dbus.NewError("org.freedesktop.systemd1.UnitMasked", []any{"Unit is masked."})
			},
			want: Unit{Active: "inactive", Sub: "dead", Invocation: "01"},
			err:  "cannot restart dcm-apply.service: the unit is masked", restarts: 1},
		{name: "cyclic", before: "inactive/dead",
			script: func(*pid1, int) *dbus.Error {
				return dbus.NewError("org.freedesktop.systemd1.TransactionOrderIsCyclic", []any{"Transaction order is cyclic."})
			},
			want: Unit{Active: "inactive", Sub: "dead", Invocation: "01"},
			err:  "cannot restart dcm-apply.service: units of the transaction wait for each other", restarts: 1},
		{name: "another error", before: "active/exited",
			script: func(*pid1, int) *dbus.Error {
				return dbus.NewError("org.freedesktop.systemd1.ShuttingDown", []any{"The system is shutting down."})
			},
			want: Unit{Active: "active", Sub: "exited", Invocation: "01"},
			err:  "cannot restart dcm-apply.service: The system is shutting down.", restarts: 1},
		{name: "reexec in the middle of the run", before: "active/exited",
			script: func(p *pid1, _ int) *dbus.Error {
				p.signal(oneshot, "activating/start*", "02")
				go func() {
					p.vanish()
					p.set(oneshot, "active/exited", "02")
					p.appear()
				}()
				return nil
			},
			want: Unit{Active: "active", Sub: "exited", Invocation: "02"}, restarts: 1},
		{name: "reexec loses the reply and the run", before: "active/exited",
			script: func(p *pid1, _ int) *dbus.Error {
				p.vanish()
				p.set(oneshot, "failed/failed", "02")
				p.appear()
				return nil
			},
			want: Unit{Active: "failed", Sub: "failed", Invocation: "02"}, restarts: 1},
		{name: "reexec loses the reply, the run continues", before: "active/exited",
			script: func(p *pid1, _ int) *dbus.Error {
				p.vanish()
				p.set(oneshot, "deactivating/stop*", "01") // not yet the next invocation
				p.afterList(func(n int, _ []string) {
					if n == 3 {
						p.signal(oneshot, "active/exited", "02")
					}
				})
				p.appear()
				return nil
			},
			want: Unit{Active: "active", Sub: "exited", Invocation: "02"}, restarts: 1},
		{name: "reexec loses the call", before: "active/exited",
			script: func(p *pid1, call int) *dbus.Error {
				if call == 1 {
					return lose
				}
				p.set(oneshot, "active/exited", "02")
				p.removed(oneshot, "done")
				return nil
			},
			want: Unit{Active: "active", Sub: "exited", Invocation: "02"}, restarts: 2},
		{name: "every call is lost", before: "active/exited",
			script: func(*pid1, int) *dbus.Error { return lose },
			want:   Unit{Active: "active", Sub: "exited", Invocation: "01"},
			err:    "cannot restart dcm-apply.service: org.freedesktop.DBus.Error.NoReply", restarts: 3},
	} {
		t.Run(tt.name, func(t *testing.T) {
			p := startPID1(t)
			p.onRestart(func(_ string, call int) *dbus.Error { return tt.script(p, call) })
			p.set(oneshot, tt.before, "01")
			c, ctx := p.dial()
			got, err := c.Jobs.Restart(ctx, oneshot)
			if text := message(err); text != tt.err {
				t.Errorf("error is %q, want %q", text, tt.err)
			}
			tt.want.Name, tt.want.Load = oneshot, "loaded"
			if tt.err == "" {
				tt.want.Result = "success"
			}
			if diff := cmp.Diff(called([]Unit{tt.want}), []Unit{got}); diff != "" {
				t.Errorf("unit (-want +got):\n%s", diff)
			}
			if n := p.count(&p.restarts); n != tt.restarts {
				t.Errorf("RestartUnit was called %d times, want %d", n, tt.restarts)
			}
		})
	}
}

func message(err error) string {
	if err == nil {
		return ""
	}
	return err.Error()
}

func TestRestart_ContextEnds(t *testing.T) {
	p := startPID1(t)
	c, ctx := p.dial()
	ctx, cancel := context.WithCancel(ctx)
	p.set(oneshot, "active/exited", "01")
	p.onRestart(func(string, int) *dbus.Error {
		p.signal(oneshot, "activating/start*", "02")
		cancel()
		return nil
	})
	if _, err := c.Jobs.Restart(ctx, oneshot); !errors.Is(err, context.Canceled) {
		t.Errorf("error is %v, want the context's", err)
	}
}

func TestRestart_Errors(t *testing.T) {
	p := startPID1(t)
	c, ctx := p.dial()
	p.set(oneshot, "inactive/dead", "01")
	p.onRestart(func(_ string, call int) *dbus.Error {
		if call == 1 {
			return dbus.NewError("org.freedesktop.systemd1.UnitMasked", nil)
		}
		p.removed(oneshot, "canceled")
		return nil
	})
	if _, err := c.Jobs.Restart(ctx, oneshot); !errors.Is(err, ErrMasked) {
		t.Errorf("error is %v, want ErrMasked", err)
	}
	_, err := c.Jobs.Restart(ctx, oneshot)
	var job *JobError
	if !errors.As(err, &job) || job.Result != "canceled" {
		t.Errorf("error is %#v, want a canceled JobError", err)
	}
}

// PID 1 signals each step of a unit. Restart reads the state only when the unit may have settled.
func TestRestart_IgnoresTransitionalSignals(t *testing.T) {
	p := startPID1(t)
	c, ctx := p.dial()
	p.set(oneshot, "active/exited", "01")
	tell := func(state string, job uint32) {
		p.emit(unitPath(oneshot), properties+".PropertiesChanged", serviceInterface, map[string]dbus.Variant{"MainPID": dbus.MakeVariant(uint32(7))}, []string{})
		p.emit(unitPath(oneshot), properties+".PropertiesChanged", unitInterface, map[string]dbus.Variant{
			"ActiveState": dbus.MakeVariant(state),
			"Job": dbus.MakeVariant(struct {
				ID   uint32
				Path dbus.ObjectPath
			}{job, jobPath(job)}),
		}, []string{})
	}
	p.onRestart(func(string, int) *dbus.Error {
		defer p.signal(oneshot, "activating/start*", "02")
		p.afterList(func(n int, _ []string) {
			if n != 2 {
				return
			}
			for range 50 {
				tell("active", 1)
				tell("deactivating", 1)
				tell("inactive", 1)
				tell("activating", 0)
			}
			p.set(oneshot, "active/exited", "02")
			tell("active", 0)
			p.removed(oneshot, "done")
		})
		return nil
	})
	if _, err := c.Jobs.Restart(ctx, oneshot); err != nil {
		t.Fatal(err)
	}
	// Before the restart, after a signal without a state, and after the two final signals.
	if n := p.count(&p.lists); n > 4 {
		t.Errorf("%d calls", n)
	}
}

// PID 1 has queued the job and is stopping the clients.
func TestRestart_NoCallBeforeSignal(t *testing.T) {
	p := startPID1(t)
	c, ctx := p.dial()
	p.set(oneshot, "active/exited", "01")
	p.onRestart(func(string, int) *dbus.Error {
		p.set(oneshot, "active/exited", "02")
		p.removed(oneshot, "done")
		return nil
	})
	if _, err := c.Jobs.Restart(ctx, oneshot); err != nil {
		t.Fatal(err)
	}
	if n := p.count(&p.lists); n != 2 {
		t.Errorf("%d calls, want one before and one at the end", n)
	}
}
