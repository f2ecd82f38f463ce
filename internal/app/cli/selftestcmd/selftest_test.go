package selftestcmd

import (
	"errors"
	"testing"

	"github.com/google/go-cmp/cmp"

	"dcm/internal/app/cli/console"
	"dcm/internal/app/selftest"
	"dcm/internal/engine/config"
	"dcm/internal/engine/host"
	"dcm/internal/engine/runstate"
	"dcm/internal/exitcode"
	"dcm/internal/frontends/status"
	"dcm/internal/gpu/partition"
	"dcm/internal/linux/systemd"
)

// The profiles that a self-test writes are read back unchanged, on nodes of one vendor and of both.
func TestDefine_RoundTrip(t *testing.T) {
	for _, kind := range []string{"mi300x-8", "mi355x-8", "mi300a-4", "h100-8", "a30-4", "rtx-pro-6000-4", "mi300x-4+h100-4"} {
		t.Run(kind, func(t *testing.T) {
			gpus, err := partition.ParseNode(kind)
			if err != nil {
				t.Fatal(err)
			}
			targets := selftest.Targets(gpus, true)
			before, err := selftest.Before(gpus)
			if err != nil {
				t.Fatal(err)
			}
			h := &host.Host{Root: t.TempDir()}
			if _, err := define(h, before, targets); err != nil {
				t.Fatal(err)
			}
			cfg, err := h.Config()
			if err != nil {
				t.Fatal(err)
			}
			if cfg.Reboot != config.Never {
				t.Error("the host may be rebooted")
			}
			n := 0
			for _, target := range append(targets, selftest.Target{Profile: before, Want: partition.CurrentLayout(gpus).Shapes}) {
				if target.SkipReason != "" {
					continue
				}
				n++
				p, err := cfg.Lookup(target.Profile.Name)
				if err != nil {
					t.Error(err)
					continue
				}
				layout, err := p.Layout(gpus)
				if err != nil {
					t.Error(err)
				}
				for gpu, want := range target.Want {
					if !layout.Shapes[gpu].Same(want) {
						t.Errorf("%s: %s is to be %s, want %s", target.Mode, gpu, layout.Shapes[gpu], want)
					}
				}
			}
			if n < 3 {
				t.Errorf("%d targets of %d", n, len(targets))
			}
		})
	}
}

func TestSelftestBack_NotBegun(t *testing.T) {
	if err := selftestBack(t.Context(), &host.Host{Root: t.TempDir()}, &console.Console{}, ""); err != nil {
		t.Error(err)
	}
}

func TestSelftestEnd(t *testing.T) {
	for name, tt := range map[string]struct {
		failed      systemd.Command
		interrupted bool
		code        int
		text        string
	}{
		"right":               {systemd.Command{}, false, exitcode.OK, ""},
		"something is wrong":  {systemd.Command{Directive: "ExecStart", Status: exitcode.Differs}, false, exitcode.Differs, ""},
		"killed":              {systemd.Command{Directive: "ExecStart", Path: "dcm", Signal: true, Status: 9}, false, exitcode.Failed, "the self-test was killed (ExecStart=dcm: killed by signal 9); the GPUs are restored"},
		"interrupted":         {systemd.Command{Directive: "ExecStart", Status: exitcode.Failed}, true, exitcode.Failed, "interrupted; the GPUs are restored"},
		"it did not get back": {systemd.Command{Directive: "ExecStopPost", Path: "dcm", Status: 1}, true, exitcode.Failed, "the GPUs may not be restored (ExecStopPost=dcm: exit status 1)\nhint: see dcm status and journalctl -u dcm"},
	} {
		err := selftestEnd(tt.failed, tt.interrupted)
		text := ""
		if err != nil {
			text = err.Error()
		}
		if exitcode.Code(err) != tt.code || text != tt.text {
			t.Errorf("%s: %v, exit status %d", name, err, exitcode.Code(err))
		}
	}
}

func TestViewOf(t *testing.T) {
	gpus := []status.GPU{{Address: "0000:05:00.0", Mode: status.Shape{Compute: "SPX", Memory: "NPS1"}, Partitions: 1}, {Address: "0000:26:00.0", Why: "driver not bound"}}
	seen := selftest.View{By: "the daemon's account", Source: selftest.Daemon, Modes: map[string]string{"0000:05:00.0": "SPX/NPS1"}, Parts: map[string]int{"0000:05:00.0": 1}}
	part := seen
	part.Problem = "0000:26:00.0: timed out"
	for name, tt := range map[string]struct {
		account status.Account
		absent  error
		want    selftest.View
	}{
		"the daemon's":             {status.Account{GPUs: gpus}, nil, seen},
		"not read completely":      {status.Account{GPUs: gpus, Hidden: []status.Unavailable{{Part: "gpus", Why: part.Problem}}}, nil, part},
		"not the daemon's":         {status.Account{GPUs: gpus}, errors.New("dcm.service is not running"), selftest.View{By: seen.By, Source: selftest.Daemon, Problem: "the daemon does not answer: dcm.service is not running"}},
		"before the first reading": {status.Account{Daemon: status.Daemon{Phase: runstate.Starting}}, nil, selftest.View{By: seen.By, Source: selftest.Daemon, Problem: "the daemon is starting"}},
	} {
		if diff := cmp.Diff(tt.want, viewOf(tt.account, tt.absent)); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
}
