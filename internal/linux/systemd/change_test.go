package systemd

import (
	"strings"
	"testing"

	"github.com/godbus/dbus/v5"
	"github.com/google/go-cmp/cmp"
)

func TestRestartAround(t *testing.T) {
	const gate, worker = "dcm-gate.service", "dcm-change.service"
	for _, tt := range []struct {
		name   string
		queue  func(p *pid1) *dbus.Error // the effect of the restart of the gate
		queued func(p *pid1)             // the effect of the end of the gate
		units  string
		want   string // the final state and invocation ID of the oneshot
		missed string
		err    string
	}{
		{name: "success", units: "a.service b.service",
			queue:  func(p *pid1) *dbus.Error { p.signal(worker, "inactive/dead*", ""); return nil },
			queued: func(p *pid1) { p.signal(worker, "active/exited", "02"); p.removed(worker, "done") },
			want:   "active 02"},
		{name: "no unit", queue: func(p *pid1) *dbus.Error { p.signal(worker, "inactive/dead*", ""); return nil },
			queued: func(p *pid1) { p.signal(worker, "active/exited", "02") },
			want:   "active 02"},
		{name: "failed run", units: "a.service",
			queue:  func(p *pid1) *dbus.Error { p.signal(worker, "active/exited*", "01"); return nil },
			queued: func(p *pid1) { p.signal(worker, "failed/failed", "02"); p.removed(worker, "failed") },
			want:   "failed 02"},
		{name: "unit without a file", units: "gone.service a.service",
			queue:  func(p *pid1) *dbus.Error { p.signal(worker, "inactive/dead*", ""); return nil },
			queued: func(p *pid1) { p.signal(worker, "active/exited", "02") },
			want:   "active 02", missed: "cannot restart gone.service: the unit is not installed"},
		{name: "gate that cannot be restarted", units: "a.service",
			queue: func(*pid1) *dbus.Error { return dbus.NewError("org.freedesktop.systemd1.NoSuchUnit", nil) },
			want:  "inactive ", err: "cannot restart dcm-gate.service: the unit is not installed"},
		{name: "canceled by isolate", units: "a.service",
			queue:  func(p *pid1) *dbus.Error { p.signal(worker, "inactive/dead*", ""); return nil },
			queued: func(p *pid1) { p.signal(worker, "inactive/dead", ""); p.removed(worker, "canceled") },
			want:   "inactive ", err: "dcm-change.service did not run, and systemd was re-executed before it reported the reason"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			p := startPID1(t)
			p.onRestart(func(name string, _ int) *dbus.Error {
				if name != gate {
					t.Errorf("restart of %s, want %s", name, gate)
				}
				return tt.queue(p)
			})
			for unit, state := range map[string]string{gate: "inactive/dead", worker: "inactive/dead", "a.service": "active/running", "b.service": "active/running"} {
				p.set(unit, state, "")
			}
			c, ctx := p.dial()
			calls, missed := 0, ""
			got, err := c.Jobs.RestartAround(ctx, Change{Gate: gate, Run: worker, Units: strings.Fields(tt.units)}, func(err error) {
				calls++
				missed = message(err)
				if tt.queued != nil {
					tt.queued(p)
				}
			})
			if text := message(err); text != tt.err || missed != tt.missed {
				t.Errorf("error %q and missed %q, want %q and %q", text, missed, tt.err, tt.missed)
			}
			if text := got.Active + " " + got.Invocation; text != tt.want || calls != 1 {
				t.Errorf("oneshot is %q after %d calls of queued, want %q and 1", text, calls, tt.want)
			}
			if want := strings.Fields(tt.units); tt.err == "" {
				if diff := cmp.Diff(strings.Join(want, " "), strings.Join(p.tried, " ")); diff != "" {
					t.Errorf("restarted units (-want +got):\n%s", diff)
				}
			}
		})
	}
}

// Without a gate the units in First are restarted before the oneshot is: they are stopped before the run then,
// and start after it.
func TestRestartAround_First(t *testing.T) {
	const run, maker = "dcm-apply.service", "dcm-make@2g.20gb_vllm.service.service"
	for _, tt := range []struct{ first, missed string }{
		{maker, ""},
		{"gone.service", "cannot restart gone.service: the unit is not installed"},
	} {
		p := startPID1(t)
		p.onRestart(func(name string, _ int) *dbus.Error {
			if got := strings.Join(p.tried, " "); name != run || tt.missed == "" && got != maker {
				t.Errorf("restart of %s after %q, want %s after %s", name, got, run, maker)
			}
			p.signal(run, "inactive/dead*", "")
			return nil
		})
		for _, unit := range []string{run, maker} {
			p.set(unit, "active/exited", "01")
		}
		c, ctx := p.dial()
		missed := ""
		got, err := c.Jobs.RestartAround(ctx, Change{Run: run, First: []string{tt.first}}, func(err error) {
			missed = message(err)
			p.signal(run, "active/exited", "02")
			p.removed(run, "done")
		})
		if err != nil || got.Active != "active" || got.Invocation != "02" || missed != tt.missed {
			t.Errorf("oneshot after %s: %s %s, %v, missed %q", tt.first, got.Active, got.Invocation, err, missed)
		}
	}
}
