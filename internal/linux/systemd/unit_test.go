package systemd

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"github.com/godbus/dbus/v5"
	"github.com/google/go-cmp/cmp"

	"dcm/internal/linux/unitname"
)

func TestList(t *testing.T) {
	p := startPID1(t)
	p.set("gpuagent.service", "active/running", "0102")
	p.property("gpuagent.service", "MainPID", uint32(42))
	p.property("gpuagent.service", "NRestarts", uint32(3))
	p.set("crashed.service", "activating/auto-restart", "03")
	p.property("crashed.service", "Result", "signal")
	p.set("gpu.target", "active/active*", "")
	p.set(`a\x2db@2.service`, "inactive/dead", "")
	p.set(`a\x2db@10.service`, "active/running", "04")
	p.set("masked.service", "inactive/dead", "")
	p.load("masked.service", "masked")
	p.alias("exporter.service", "gpuagent.service")
	c, ctx := p.dial()

	got, err := c.Units.List(ctx, []string{"gpu.target", "crashed.service", "none.service", `a\x2db@.service`, "gpuagent.service", "empty@.service", "masked.service", "exporter.service"}, All)
	if err != nil {
		t.Fatal(err)
	}
	want := []Unit{
		{Name: "gpu.target", Load: "loaded", Active: "active", Sub: "active", Job: true},
		{Name: "crashed.service", Load: "loaded", Active: "activating", Sub: "auto-restart", Result: "signal", Invocation: "03"},
		{Name: "none.service", Load: "not-found", Active: "inactive", Sub: "dead"},
		{Name: `a\x2db@10.service`, Load: "loaded", Active: "active", Sub: "running", Result: "success", Invocation: "04"},
		{Name: `a\x2db@2.service`, Load: "loaded", Active: "inactive", Sub: "dead", Result: "success"},
		{Name: "gpuagent.service", Load: "loaded", Active: "active", Sub: "running", Result: "success", Invocation: "0102", Restarts: 3, MainPID: 42},
		{Name: "masked.service", Load: "masked", Active: "inactive", Sub: "dead"},
		{Name: "exporter.service", ID: "gpuagent.service", Load: "loaded", Active: "active", Sub: "running", Result: "success", Invocation: "0102", Restarts: 3, MainPID: 42},
	}
	if diff := cmp.Diff(called(want), got); diff != "" {
		t.Errorf("units (-want +got):\n%s", diff)
	}
	for i, u := range want {
		if u.Active == "active" {
			want[i].Invocation, want[i].MainPID = "", 0
		}
	}
	names := []string{"gpu.target", "crashed.service", "none.service", `a\x2db@.service`, "gpuagent.service", "empty@.service", "masked.service", "exporter.service"}
	restarts, err := c.Units.List(ctx, names, Restarts)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want, restarts); diff != "" {
		t.Errorf("with restarts (-want +got):\n%s", diff)
	}
	for i, u := range want {
		if u.Active == "active" {
			want[i].Restarts = 0
		}
	}
	inactive, err := c.Units.List(ctx, names, Inactive)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want, inactive); diff != "" {
		t.Errorf("of inactive units (-want +got):\n%s", diff)
	}
	if got, err := c.Units.List(ctx, nil, All); err != nil || len(got) > 0 {
		t.Errorf("no names: %v, %v", got, err)
	}
}

// Each start of the daemon reads all clients: the number of calls is exact.
func TestList_NumberOfCalls(t *testing.T) {
	p := startPID1(t)
	var names []string
	for i := range 50 {
		names = append(names, fmt.Sprintf("client-%d.service", i))
		p.set(names[i], "active/running", "01")
	}
	c, ctx := p.dial()
	if _, err := c.Units.List(ctx, names, Inactive); err != nil {
		t.Fatal(err)
	}
	if lists, gets, hearers := p.count(&p.lists), p.count(&p.gets), p.count(&p.hearers); lists != 1 || gets > 0 || hearers > 0 || len(c.transport.signals.rules()) > 0 {
		t.Errorf("%d lists, %d properties, %d calls of Subscribe and %d rules; want one list only", lists, gets, hearers, len(c.transport.signals.rules()))
	}
	for range 2 {
		if _, err := c.Units.Settle(ctx, names, Unit.Settled); err != nil {
			t.Fatal(err)
		}
	}
	if hearers := p.count(&p.hearers); hearers != 1 {
		t.Errorf("%d calls of Subscribe, want one", hearers)
	}
}

// called sets the ID of units to their name, unless they have an ID.
func called(units []Unit) []Unit {
	for i, u := range units {
		if u.ID == "" {
			units[i].ID = u.Name
		}
	}
	return units
}

func TestSettled(t *testing.T) {
	for _, tt := range []struct {
		unit Unit
		want bool
	}{
		{Unit{Active: "active"}, true},
		{Unit{Active: "inactive"}, true},
		{Unit{Active: "failed"}, true},
		{Unit{Active: "active", Job: true}, false},
		{Unit{Active: "activating"}, false},
		{Unit{Active: "deactivating"}, false},
		{Unit{Active: "reloading"}, false},
		{Unit{Active: "refreshing"}, false},
		{Unit{Active: "activating", Sub: "auto-restart"}, false},
		{Unit{Active: "activating", Sub: "auto-restart-queued", Job: true}, false},
		{Unit{Active: "activating", Sub: "auto-restart-queued"}, true}, // its job ended with "dependency"
	} {
		if got := tt.unit.Settled(); got != tt.want {
			t.Errorf("%s, job %v: settled is %v, want %v", tt.unit.Active, tt.unit.Job, got, tt.want)
		}
	}
}

// systemd 254 and later leave a service "activating" whose automatic restart ended with "dependency".
func TestUp(t *testing.T) {
	for _, tt := range []struct {
		unit Unit
		want bool
	}{
		{Unit{Active: "active"}, true},
		{Unit{Active: "activating", Sub: "auto-restart"}, true},
		{Unit{Active: "activating", Sub: "auto-restart-queued", Job: true}, true},
		{Unit{Active: "activating", Sub: "auto-restart-queued"}, false},
		{Unit{Active: "failed"}, false},
	} {
		if got := tt.unit.Up(); got != tt.want {
			t.Errorf("%s (%s), job %v: up is %v, want %v", tt.unit.Active, tt.unit.Sub, tt.unit.Job, got, tt.want)
		}
	}
}

func TestSettle_AutoRestart(t *testing.T) {
	p := startPID1(t)
	p.set("a.service", "activating/start", "")
	c, ctx := p.dial()
	done := make(chan error, 1)
	go func() {
		_, err := c.Units.Settle(ctx, []string{"a.service"}, func(u Unit) bool { return u.Settled() || u.Restarting() })
		done <- err
	}()
	p.signal("a.service", "activating/auto-restart", "")
	if err := <-done; err != nil {
		t.Error(err)
	}
}

// TestStoppedWith: units that depend on a client are found, whether they are active or not. One that was a client before,
// and what depends on it, is not.
func TestStoppedWith(t *testing.T) {
	p := startPID1(t)
	for name, deps := range map[string]map[string]any{
		"proxy.service":   {"BindsTo": []string{"web.service"}},
		"web.service":     {"Requires": []string{"client.service", "sysinit.target"}},
		"part.service":    {"PartOf": []string{unitname.Apply}},
		"removed.service": {"Requires": []string{"sysinit.target"}},
		"of-it.service":   {"Requires": []string{"removed.service"}},
	} {
		p.set(name, "inactive/dead", "")
		for _, property := range []string{"Requires", "BindsTo", "PartOf", "Requisite", "StopPropagatedFrom"} {
			p.property(name, property, []string{})
		}
		for property, names := range deps {
			p.property(name, property, names)
		}
	}
	c, ctx := p.dial()
	got, err := c.Dependencies.StoppedWith(ctx, []string{"proxy.service", "web.service", "part.service", "removed.service", "of-it.service"},
		func(unit string) bool { return unit == "client.service" || unit == unitname.Apply })
	if diff := cmp.Diff([]string{"web.service", "part.service", "proxy.service"}, got); err != nil || diff != "" {
		t.Errorf("%v (-want +got):\n%s", err, diff)
	}
}

func TestDependents_ActiveUnitsOnly(t *testing.T) {
	p := startPID1(t)
	for name, u := range map[string]struct {
		state string
		deps  map[string]any
	}{
		"gpuagent.service":  {"active/running", map[string]any{"RequiredBy": []string{"web.service", "off.service", "other.service"}}},
		"exporter.service":  {"inactive/dead", map[string]any{"RequiredBy": []string{"unreached.service"}}},
		"other.service":     {"active/running", nil},
		"web.service":       {"active/running", map[string]any{"BoundBy": []string{"proxy.service"}, "ConsistsOf": []string{"side.service"}}},
		"proxy.service":     {"activating/auto-restart", map[string]any{"RequisiteOf": []string{"late.service", "going.service"}, "PropagatesStopTo": []string{"propagated.target"}}},
		"side.service":      {"active/running", map[string]any{"ConsistsOf": []string{"gpuagent.service", "web.service"}}},
		"off.service":       {"inactive/dead", map[string]any{"RequiredBy": []string{"unreached.service"}}},
		"late.service":      {"reloading/reload", nil},
		"going.service":     {"deactivating/stop", map[string]any{"RequiredBy": []string{"unreached.service"}}},
		"propagated.target": {"active/active", nil},

		"unreached.service": {"active/running", nil},
		unitname.Apply:      {"failed/failed", map[string]any{"RequiredBy": []string{"bench.service"}}},
		unitname.Reserve:    {"inactive/dead", map[string]any{"ConsistsOf": []string{"reserved.service"}}},
		"reserved.service":  {"active/running", nil},
		"bench.service":     {"active/running", nil},
		"v@1.service":       {"active/running", map[string]any{"ConsistsOf": []string{"v1.socket"}}},
		"v1.socket":         {"active/listening", nil},
	} {
		p.set(name, u.state, "")
		for property, names := range u.deps {
			p.property(name, property, names)
		}
	}
	c, ctx := p.dial()
	got, err := c.Dependencies.Dependents(ctx, []string{"gpuagent.service", "exporter.service", "other.service", "v@.service", "none.service", unitname.Apply, unitname.Reserve})
	if err != nil {
		t.Fatal(err)
	}
	want := []string{"bench.service", "late.service", "propagated.target", "proxy.service", "reserved.service", "side.service", "v1.socket", "web.service"}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("dependents (-want +got):\n%s", diff)
	}
}

func TestSettle(t *testing.T) {
	p := startPID1(t)
	names := []string{"a.service", "b.service", "c.service", "none.service", "v@.service"}
	p.set("a.service", "inactive/dead*", "")
	p.set("b.service", "active/running", "")
	p.set("c.service", "activating/auto-restart", "")
	p.set("v@1.service", "deactivating/stop", "")
	c, ctx := p.dial()

	type answer struct {
		units []Unit
		err   error
	}
	done, begun := make(chan answer, 1), make(chan struct{})
	var last atomic.Bool
	p.afterList(func(n int, asked []string) {
		switch {
		case n == 1:
			p.signal("b.service", "deactivating/stop*", "") // after it had settled
			close(begun)
		case last.Load() && slices.Contains(asked, "b.service"):
			p.signal("b.service", "active/running", "")
		}
	})
	go func() {
		units, err := c.Units.Settle(ctx, names, Unit.Settled)
		done <- answer{units, err}
	}()
	<-begun
	for _, step := range []struct{ unit, state string }{
		{"a.service", "activating/start*"}, {"v@1.service", "inactive/dead"}, {"c.service", "active/running"},
		{"a.service", "active/running*"},
	} {
		select {
		case got := <-done:
			t.Fatalf("Settle returned before %s was %s: %v", step.unit, step.state, got)
		default:
		}
		p.signal(step.unit, step.state, "")
	}
	p.set("a.service", "active/running", "")
	last.Store(true)
	p.signal("a.service", "active/running", "")
	got := <-done
	if got.err != nil {
		t.Fatal(got.err)
	}
	want := []Unit{
		{Name: "a.service", Load: "loaded", Active: "active", Sub: "running", Result: "success"},
		{Name: "b.service", Load: "loaded", Active: "active", Sub: "running", Result: "success"},
		{Name: "c.service", Load: "loaded", Active: "active", Sub: "running", Result: "success"},
		{Name: "none.service", Load: "not-found", Active: "inactive", Sub: "dead"},
		{Name: "v@1.service", Load: "loaded", Active: "inactive", Sub: "dead", Result: "success"},
	}
	if diff := cmp.Diff(called(want), got.units); diff != "" {
		t.Errorf("units (-want +got):\n%s", diff)
	}
}

// A service whose process was killed is "active" until PID 1 has reaped it.
func TestSettle_ChangeBeforeRead(t *testing.T) {
	p := startPID1(t)
	p.set("a.service", "active/running", "")
	c, ctx := p.dial()
	p.afterList(func(n int, _ []string) {
		switch n {
		case 1:
			p.signal("a.service", "activating/auto-restart", "")
		case 3:
			p.signal("a.service", "failed/failed", "")
		}
	})
	units, err := c.Units.Settle(ctx, []string{"a.service"}, Unit.Settled)
	if err != nil || len(units) != 1 || units[0].Active != "failed" {
		t.Errorf("settled are %+v, %v; want a failed unit", units, err)
	}
}

func TestSettle_ContextEnds(t *testing.T) {
	p := startPID1(t)
	p.set("a.service", "activating/auto-restart", "")
	c, ctx := p.dial()
	ended, cancel := context.WithCancel(ctx)
	cancel()
	short, cancel := context.WithTimeout(ctx, time.Second)
	defer cancel()
	for _, tt := range []struct {
		name string
		ctx  context.Context
		want error
	}{{"before", ended, context.Canceled}, {"meanwhile", short, context.DeadlineExceeded}} {
		units, err := c.Units.Settle(tt.ctx, []string{"a.service"}, Unit.Settled)
		if !errors.Is(err, tt.want) {
			t.Errorf("%s: error is %v, want %v", tt.name, err, tt.want)
		}
		want := []Unit{{Name: "a.service", Load: "loaded", Active: "activating", Sub: "auto-restart", Result: "success"}}
		if diff := cmp.Diff(called(want), units); diff != "" {
			t.Errorf("%s: units (-want +got):\n%s", tt.name, diff)
		}
	}
	// The rule that the first call could not add to the bus is added later.
	p.signal("a.service", "activating/start", "")
	done := make(chan error, 1)
	go func() { _, err := c.Units.Settle(ctx, []string{"a.service"}, Unit.Settled); done <- err }()
	p.signal("a.service", "active/running", "")
	if err := <-done; err != nil {
		t.Error(err)
	}
	if n := len(c.transport.signals.rules()); n != 3 {
		t.Errorf("%d rules after three calls, want 3", n)
	}
}

func TestSettle_Reexec(t *testing.T) {
	p := startPID1(t)
	p.set("a.service", "activating/start*", "")
	c, ctx := p.dial()
	done := make(chan error, 1)
	go func() { _, err := c.Units.Settle(ctx, []string{"a.service"}, Unit.Settled); done <- err }()
	p.vanish()
	p.set("a.service", "active/running", "")
	p.appear()
	if err := <-done; err != nil {
		t.Error(err)
	}
}

func TestResetFailedAndReload(t *testing.T) {
	p := startPID1(t)
	p.set("a.service", "failed/failed", "")
	c, ctx := p.dial()
	if err := c.Jobs.ResetFailed(ctx, "a.service"); err != nil {
		t.Error(err)
	}
	if units, err := c.Units.List(ctx, []string{"a.service"}, All); err != nil || units[0].Active != "inactive" {
		t.Errorf("units after ResetFailed: %v, %v", units, err)
	}
	if err := c.Jobs.ResetFailed(ctx, "none.service"); err != nil {
		t.Errorf("ResetFailed of a unit that is not loaded: %v", err)
	}
	if err := c.Manager.Reload(ctx); err != nil {
		t.Error(err)
	}
	if n := p.count(&p.reloads); n != 1 {
		t.Errorf("%d reloads, want 1", n)
	}
}

func TestUnitPath(t *testing.T) {
	for name, want := range map[string]dbus.ObjectPath{
		"dcm-apply.service":     "/org/freedesktop/systemd1/unit/dcm_2dapply_2eservice",
		`0a\x2db@1:é.service`:   "/org/freedesktop/systemd1/unit/_30a_5cx2db_401_3a_c3_a9_2eservice",
		"amd-metrics@a.service": "/org/freedesktop/systemd1/unit/amd_2dmetrics_40a_2eservice",
	} {
		if got := unitPath(name); got != want {
			t.Errorf("%s: path is %s, want %s", name, got, want)
		}
	}
}

func TestEnabled(t *testing.T) {
	p := startPID1(t)
	p.set("dcm.service", "active/running", "")
	p.property("dcm.service", "UnitFileState", "disabled")
	c, ctx := p.dial()
	if got, err := c.Units.Enabled(ctx, "dcm.service"); got != "disabled" || err != nil {
		t.Errorf("enabled: %q, %v", got, err)
	}
}

func TestChanged(t *testing.T) {
	p := startPID1(t)
	p.set("a.service", "failed/failed", "")
	p.set("b.service", "inactive/dead", "")
	c, ctx := p.dial()
	had := map[string]string{"a.service": "failed", "b.service": "inactive"}
	ended := make(chan error, 1)
	go func() { ended <- c.Units.Changed(ctx, had) }()
	p.signal("b.service", "active/running", "")
	if err := <-ended; err != nil {
		t.Fatal(err)
	}
	if err := c.Units.Changed(ctx, had); err != nil { // the state differed from the start
		t.Fatal(err)
	}
	stopped, stop := context.WithCancel(ctx)
	stop()
	if err := c.Units.Changed(stopped, map[string]string{"a.service": "failed"}); err == nil {
		t.Error("no error after the end of ctx")
	}
}

func TestTriggers_ActiveOnly(t *testing.T) {
	p := startPID1(t)
	for name, state := range map[string]string{"a.socket": "active/listening", "a.timer": "active/waiting", "b.path": "inactive/dead", "a.service": "inactive/dead", "b.service": "active/running", "c.service": "active/running"} {
		p.set(name, state, "")
	}
	p.property("a.service", "TriggeredBy", []string{"a.socket", "a.timer"})
	p.property("b.service", "TriggeredBy", []string{"a.timer", "b.path"})
	p.property("c.service", "TriggeredBy", []string{})
	c, ctx := p.dial()
	units, err := c.Dependencies.Triggers(ctx, []string{"a.service", "b.service", "c.service"})
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, u := range units {
		got = append(got, u.ID)
	}
	if diff := cmp.Diff([]string{"a.socket", "a.timer"}, got); diff != "" {
		t.Errorf("triggers (-want +got):\n%s", diff)
	}
}

// A list of units that are not loaded makes PID 1 load and unload them, which sends signals.
func TestLoaded(t *testing.T) {
	p := startPID1(t)
	p.set("gpuagent.service", "active/running", "0102")
	p.alias("exporter.service", "gpuagent.service")
	c, ctx := p.dial()
	got, err := c.Units.Loaded(ctx, []string{"dcm-lease-0-a.scope", "gpuagent.service", "exporter.service", `a\x2db.service`})
	if err != nil {
		t.Fatal(err)
	}
	want := []Unit{
		{Name: "gpuagent.service", ID: "gpuagent.service", Load: "loaded", Active: "active", Sub: "running"},
		{Name: "exporter.service", ID: "gpuagent.service", Load: "loaded", Active: "active", Sub: "running"},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("units (-want +got):\n%s", diff)
	}
	if len(p.loadedForList) > 0 {
		t.Errorf("loaded: %q", p.loadedForList)
	}
}
