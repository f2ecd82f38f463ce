package service

import (
	"context"
	"errors"
	"log/slog"
	"os"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"dcm/internal/engine/config"
	"dcm/internal/engine/daemon"
	"dcm/internal/engine/host"
	"dcm/internal/engine/runstate"
	"dcm/internal/frontends/dbusapi"
	"dcm/internal/gpu/partition"
)

// Every user of the bus may make these calls, and a configuration may take
// seconds to parse: here it cannot be read at all.
func TestCallsOfUsers_ReadNoConfiguration(t *testing.T) {
	root := t.TempDir()
	effective := &config.Config{Profiles: map[string]partition.Profile{"cpx": {Name: "cpx"}}}
	h := &host.Host{Root: root}
	c := control{host: h, node: host.OpenNode(h, nil), config: newEffectiveConfig(h, slog.New(slog.DiscardHandler))}
	c.config.set(effective)
	c.config.reading.Lock() // a reader would not return
	for profile, want := range map[string]string{"cpx": "", config.None: "", "cxp": `"cpx"`} {
		if err := c.Known(profile); (err == nil) != (want == "") || err != nil && !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", profile, err, want)
		}
	}
	if _, err := c.Plan(t.Context(), dbusapi.Caller{UID: 1000}, "cxp"); err == nil || !strings.Contains(err.Error(), "no such profile") {
		t.Errorf("a plan: %v", err)
	}
	if text, err := c.Plans(t.Context()); err != nil || text != "[]" {
		t.Errorf("the plans on a host without GPUs: %s, %v", text, err)
	}
}

// asked is a daemon that is at rest with one state, whatever it is asked.
type asked struct{ reasons chan runstate.Asked }

// answeringWith returns a control whose daemon answers each request with the state.
func answeringWith(t *testing.T, h *host.Host, state runstate.State) (control, asked) {
	t.Helper()
	requests, shown := make(chan daemon.Request), asked{make(chan runstate.Asked, 1)}
	go func() {
		for {
			select {
			case r := <-requests:
				shown.reasons <- r.Asked
				r.Done <- state
			case <-t.Context().Done():
				return
			}
		}
	}()
	return control{host: h, requests: requests, config: newEffectiveConfig(h, slog.New(slog.DiscardHandler)), caughtUp: func(context.Context) {}}, shown
}

func TestUse_OvertakenByAnotherSelection(t *testing.T) {
	h := &host.Host{Root: t.TempDir()}
	c, _ := answeringWith(t, h, runstate.State{Phase: runstate.InSync, Profile: "cpx", Source: "dcm.toml:1"})
	_, err := c.Use(t.Context(), dbusapi.Caller{UID: 0}, dbusapi.Selection{Profile: config.None})
	if _, ok := errors.AsType[*dbusapi.OvertakenError](err); !ok || err.Error() != "profile none: overtaken by another selection (found cpx by dcm.toml:1)" {
		t.Errorf("got %v", err)
	}
	c, _ = answeringWith(t, h, runstate.State{Phase: runstate.Idle})
	if state, err := c.Use(t.Context(), dbusapi.Caller{UID: 0}, dbusapi.Selection{Profile: config.None}); err != nil || state != string(runstate.Idle) {
		t.Errorf("not overtaken: %q, %v", state, err)
	}
}

func TestUse_UntilReboot(t *testing.T) {
	h := &host.Host{Root: t.TempDir()}
	paths := config.DefaultPaths(h.Root)
	for _, untilReboot := range []bool{true, false} {
		c, shown := answeringWith(t, h, runstate.State{Phase: runstate.Idle})
		if _, err := c.Use(t.Context(), dbusapi.Caller{UID: 0}, dbusapi.Selection{Profile: config.None, UntilReboot: untilReboot}); err != nil {
			t.Fatal(err)
		}
		want := "Use(none) was called over D-Bus"
		if untilReboot {
			want = "UseUntilReboot(none) was called over D-Bus"
		}
		if got := <-shown.reasons; got.Why != want {
			t.Errorf("the cause of the run is %q, want %q", got.Why, want)
		}
		cfg, err := h.Config()
		if err != nil || host.UntilReboot(h, cfg) != untilReboot {
			t.Errorf("the selection is from %s, want until reboot %v (%v)", cfg.Source, untilReboot, err)
		}
		if _, err := os.Stat(paths.Admin); (err == nil) == untilReboot {
			t.Errorf("until reboot %v, and %s: %v", untilReboot, paths.Admin, err)
		}
	}
}

// The note of a command stays for the loop, in which the event of the command's edit may precede the request.
func TestApply_LeavesTheCallersNote(t *testing.T) {
	h := &host.Host{Root: t.TempDir()}
	if err := os.MkdirAll(h.Runtime(), 0o755); err != nil {
		t.Fatal(err)
	}
	c, shown := answeringWith(t, h, runstate.State{Phase: runstate.Idle})
	if _, err := h.Note(h.Asked([]string{"dcm", "apply", "whole", "--rolling"}), &runstate.Selection{Profile: "whole", Rolling: true}); err != nil {
		t.Fatal(err)
	}
	if _, err := c.Apply(t.Context(), dbusapi.Caller{UID: 0, PID: os.Getpid()}); err != nil {
		t.Fatal(err)
	}
	if got, want := <-shown.reasons, "Apply() was called over D-Bus"; got.Why != want {
		t.Errorf("the reason is %q, want %q", got.Why, want)
	}
	if notes, err := h.Notes(); err != nil || len(notes) != 1 || notes[0].Asked.Why != "dcm apply whole --rolling" {
		t.Errorf("the notes for the loop are %+v, %v", notes, err)
	}
}

func TestAddRounds(t *testing.T) {
	for _, f := range []daemon.Forecast{
		{Rounds: []daemon.Round{{GPUs: []partition.Address{"0000:05:00.0"}, Units: []string{"a.service"}}}, Waits: &runstate.Error{Text: "b.service is down"}},
		{Rounds: []daemon.Round{{GPUs: []partition.Address{"0000:05:00.0"}, Units: []string{"a.service"}}}, Refused: &runstate.Error{Text: "b.service is down"}},
	} {
		var got dbusapi.Plan
		addRounds(&got, f)
		want := dbusapi.Plan{Rounds: []dbusapi.Round{{GPUs: []string{"0000:05:00.0"}, Clients: []string{"a.service"}}}, Waits: "b.service is down"}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("plan (-want +got):\n%s", diff)
		}
	}
}
