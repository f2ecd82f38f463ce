package dbusapi

import (
	"context"
	"errors"
	"log/slog"
	"strings"
	"sync"
	"testing"

	"github.com/godbus/dbus/v5"
)

func TestAuthorise(t *testing.T) {
	everything := []string{actionApply, actionUse, actionReload}
	onlyApply := []string{actionApply}
	none := map[string]dbus.Variant{}
	tests := []struct {
		name   string
		uid    uint32
		polkit []string // the actions that polkit allows; nil: there is no polkit
		method string
		args   []any
		called string // the action that polkit was called for
		did    string
		err    string
	}{
		{"root applies without polkit", 0, nil, "Apply", nil, "", "apply", ""},
		{"root applies without a call of polkit", 0, onlyApply, "Use", []any{"cpx"}, "", "use:cpx", ""},
		{"a user without polkit", 1000, nil, "Apply", nil, "", "", errorDenied},
		{"a user whom polkit allows", 1000, everything, "Use", []any{"cpx"}, "use:cpx", "use:cpx", ""},
		{"a user whom polkit allows, until reboot", 1000, everything, "UseUntilReboot", []any{"cpx"}, "use:cpx", "use until reboot:cpx", ""},
		{"a user without polkit, until reboot", 1000, nil, "UseUntilReboot", []any{"cpx"}, "", "", errorDenied},
		{"a user whom polkit allows, until confirmed", 1000, everything, "UseUntilConfirmed", []any{"cpx", uint64(600_000_000), false}, "use:cpx", "use until confirmed within 10m0s:cpx", ""},
		{"no time to confirm", 0, nil, "UseUntilConfirmed", []any{"cpx", uint64(0), false}, "", "", errorArguments},
		{"a user confirms without polkit", 1000, nil, "Confirm", []any{"cpx"}, "", "", errorDenied},
		{"a user whom polkit allows confirms", 1000, everything, "Confirm", []any{"cpx"}, "use:cpx", "confirm:cpx", ""},
		{"an invalid profile name", 1000, everything, "Use", []any{"\x1b[2Jpress yes\u202e"}, "", "", errorFailed},
		{"polkit allows another action", 1000, onlyApply, "Reload", nil, "reload", "", errorInteractive},
		{"root has a lease without polkit", 0, nil, "Acquire", []any{none}, "", "acquire:1:0", ""},
		{"a user has no lease without polkit", 1000, nil, "Acquire", []any{none}, "", "", errorDenied},
		{"polkit allows a lease", 1000, []string{actionLease}, "Acquire", []any{none}, "lease", "acquire:1:0", ""},
		{"any user may make a dry run", 1000, nil, "Acquire", []any{map[string]dbus.Variant{"dry-run": dbus.MakeVariant(true)}}, "", "acquire:1:0", ""},
		{"an unknown option", 0, nil, "Acquire", []any{map[string]dbus.Variant{"prio": dbus.MakeVariant("x")}}, "", "", errorArguments},
		{"an option of another type", 0, nil, "Acquire", []any{map[string]dbus.Variant{"time": dbus.MakeVariant("2h")}}, "", "", errorArguments},
		{"a user removes a request", 1000, nil, "Dequeue", []any{uint32(4711)}, "", "dequeue:4711:1000", ""},
		{"a user enters a lease", 1000, nil, "Enter", []any{"x.scope"}, "", "enter:x.scope:1000", ""},
		{"a user releases a lease", 1000, nil, "Release", []any{"x.scope"}, "", "release:x.scope:1000", ""},
		{"a user extends a lease", 1000, nil, "Extend", []any{"x.scope", uint64(7_200_000_000)}, "", "extend:x.scope:2h0m0s:1000", ""},
		{"an extension beyond all limits", 1000, nil, "Extend", []any{"x.scope", uint64(1<<64 - 1)}, "", "extend:x.scope:87600h0m0s:1000", ""},
		{"any user may plan rounds", 1000, nil, "PlanRounds", []any{"cpx"}, "", "plan:cpx", ""},
		{"any user may plan all profiles", 1000, nil, "Plans", nil, "", "plans", ""},
		{"any user may plan", 1000, nil, "Plan", []any{""}, "", "plan:", ""},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			b := startBus(t)
			a := &authority{allowed: map[string]bool{}}
			for _, action := range tt.polkit {
				a.allowed[action] = true
			}
			if tt.polkit != nil {
				b.polkit(a)
			}
			d := &desk{}
			b.serve(d, tt.uid)
			b.owned()
			err := b.connect().Object(Name, Path).Call(Interface+"."+tt.method, 0, tt.args...).Err
			var remote dbus.Error
			errors.As(err, &remote)
			if remote.Name != tt.err {
				t.Errorf("%s: %v, want %q", tt.method, err, tt.err)
			}
			if got := d.did(); got != tt.did {
				t.Errorf("calls of the daemon: got %q, want %q", got, tt.did)
			}
			if got := a.signals(); got != tt.called {
				t.Errorf("calls of polkit: got %q, want %q", got, tt.called)
			}
		})
	}
}

func TestAuthorise_Interactive(t *testing.T) {
	b := startBus(t)
	a := &authority{}
	b.polkit(a)
	b.serve(&desk{}, 1000)
	b.owned()
	c, err := Dial(t.Context(), b.address)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	if _, err := c.Use(t.Context(), "cpx"); !errors.Is(err, ErrDenied) || !strings.Contains(err.Error(), "no polkit agent") {
		t.Errorf("Use: got %v, want ErrDenied", err)
	}
	if got := a.signals(); got != "use!:cpx" {
		t.Errorf("call of polkit: got %q, want it interactive", got)
	}
}

func TestClient_ErrorText(t *testing.T) {
	b := startBus(t)
	d := &desk{err: errors.New("GPUs are in use")}
	b.serve(d, 0)
	b.owned()
	c, err := Dial(t.Context(), b.address)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	if _, err := c.Apply(t.Context()); err == nil || err.Error() != "GPUs are in use" {
		t.Errorf("Apply: got %v, want the daemon's reason", err)
	}
	d.answer("", &ConfigError{errors.New("dcm.toml:3: bad")})
	var config *ConfigError
	if _, err := c.Use(t.Context(), "cpx"); !errors.As(err, &config) || err.Error() != "dcm.toml:3: bad" {
		t.Errorf("Use: got %v, want the error of the configuration", err)
	}
	d.answer("in-sync", nil)
	if state, err := c.Use(t.Context(), "cpx"); state != "in-sync" || err != nil {
		t.Errorf("Use: got %q, %v", state, err)
	}
}

func TestClient_NoAnswer(t *testing.T) {
	b := startBus(t)
	c, err := Dial(t.Context(), b.address)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	if _, err := c.Manager(t.Context()); !errors.Is(err, ErrAbsent) {
		t.Errorf("without a daemon: %v", err)
	}
	b.serve(&desk{}, 1000)
	b.owned()
	if _, err := c.Apply(t.Context()); !errors.Is(err, ErrDenied) {
		t.Errorf("without permission: %v", err)
	}
	b.stop()
	if _, err := Dial(t.Context(), b.address); !errors.Is(err, ErrAbsent) {
		t.Errorf("without a bus: %v", err)
	}
}

// Any user can cause rejections in any number.
func TestRejections_LoggedOncePerMinute(t *testing.T) {
	b := startBus(t)
	var journal syncBuffer
	d := &desk{}
	s := New(b.address, controlBy(d), slog.New(slog.NewTextHandler(&journal, nil)))
	s.handler.caller = func(context.Context, call) (credentials, error) { return credentials{owner: 1000, uid: 1000}, nil }
	b.run(s)
	b.owned()
	object := b.connect().Object(Name, Path)
	d.answer("", errors.New("there is no such lease"))
	for range 5 {
		for method, arg := range map[string]any{"Release": strings.Repeat("x", 1000), "Use": "cpx", "Acquire": map[string]dbus.Variant{}} {
			if err := object.Call(Interface+"."+method, 0, arg).Err; err == nil {
				t.Errorf("%s was not rejected", method)
			}
		}
	}
	if got := journal.String(); strings.Count(got, "uid=1000") != 1 || !strings.Contains(got, "request rejected") {
		t.Errorf("log of 15 rejections of one user:\n%s", got)
	}
	d.answer("", nil)
	if err := object.Call(Interface+".Release", 0, "a.scope").Err; err != nil {
		t.Fatal(err)
	}
	if got := journal.String(); !strings.Contains(got, "lease released") || !strings.Contains(got, "a.scope") {
		t.Errorf("log of permitted calls:\n%s", got)
	}
}

// syncBuffer is a buffer for several goroutines.
type syncBuffer struct {
	mu   sync.Mutex
	text strings.Builder
}

func (b *syncBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.text.Write(p)
}

func (b *syncBuffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.text.String()
}
