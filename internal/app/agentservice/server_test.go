package agentservice

import (
	"context"
	"encoding/json"
	"errors"
	"io/fs"
	"log/slog"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"dcm/internal/engine/apply"
	"dcm/internal/engine/config"
	"dcm/internal/engine/config/selection"
	"dcm/internal/engine/config/source"
	"dcm/internal/engine/host"
	"dcm/internal/frontends/agent"
	"dcm/internal/gpu"
	"dcm/internal/gpu/partition"
)

func TestFollow_SendsChangesOnly(t *testing.T) {
	same := string(contentOf(json.RawMessage(`{"taken":"1","gpus":[1]}`)))
	if got := string(contentOf(json.RawMessage(`{"gpus":[1],"taken":"2"}`))); got != same {
		t.Errorf("%s is another account than %s", got, same)
	}
	if got := string(contentOf(json.RawMessage(`{"gpus":[2],"taken":"1"}`))); got == same {
		t.Errorf("%s is the same account as %s", got, same)
	}
}

// Under load an answer may be late, and no change may follow it for days.
func TestFollow_RetriesAFailedQuery(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		answers := []string{`{"gpus":1}`, "", `{"gpus":2}`, `{"gpus":2}`}
		asked := 0
		ask := func(context.Context) (json.RawMessage, error) {
			text := answers[min(asked, len(answers)-1)]
			asked++
			if text == "" {
				return nil, context.DeadlineExceeded
			}
			return json.RawMessage(text), nil
		}
		changed := make(chan struct{}, 1)
		changed <- struct{}{}
		ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
		defer cancel()
		var sent []string
		if err := follow(ctx, changed, ask, func(a json.RawMessage) error { sent = append(sent, string(a)); return nil }); err != nil {
			t.Error(err)
		}
		if diff := cmp.Diff([]string{`{"gpus":1}`, `{"gpus":2}`}, sent); diff != "" || asked != 3 {
			t.Errorf("got %d queries, want 3; accounts sent (-want +got):\n%s", asked, diff)
		}
	})
}

func TestConfigError(t *testing.T) {
	var profile *agent.ProfileError
	if err := configError(&selection.NoProfileError{Profile: "x", Accepted: []string{"y"}}); !errors.As(err, &profile) || profile.Profile != "x" || len(profile.Accepted) != 1 {
		t.Errorf("%#v", err)
	}
	var allowance *agent.AllowanceError
	if err := configError(&config.NotAllowedError{Key: "gpu.library"}); !errors.As(err, &allowance) || allowance.Key != "gpu.library" {
		t.Errorf("%#v", err)
	}
	var problems *agent.ConfigurationError
	if err := configError(&source.Errors{}); !errors.As(err, &problems) {
		t.Errorf("%#v", err)
	}
	var failed *agent.FailedError
	if err := configError(fs.ErrPermission); !errors.As(err, &failed) || !failed.Undone {
		t.Errorf("%#v", err)
	}
}

func TestPlan_ChangingGPUs(t *testing.T) {
	var d apply.Difference
	for _, a := range []partition.Address{"a", "b", "c"} {
		g := partition.GPU{Address: a, Vendor: partition.AMD, Compute: partition.SPX, Memory: "NPS1"}
		d.GPUs = append(d.GPUs, g)
		d.Devices = append(d.Devices, gpu.Device{GPU: g})
	}
	compute := partition.Step{Kind: partition.SwitchCompute, GPU: "b", From: "SPX", To: "CPX"}
	for _, test := range []struct {
		name  string
		steps partition.Steps
		want  []string
	}{
		{"none", nil, []string{}},
		{"one", partition.Steps{compute}, []string{"b"}},
		{"a memory mode", partition.Steps{{Kind: partition.RequestMemory, GPU: "b", To: "NPS4"}, {Kind: partition.ReloadDriver}, compute}, []string{"a", "b", "c"}},
	} {
		t.Run(test.name, func(t *testing.T) {
			d.Steps = test.steps
			if diff := cmp.Diff(test.want, agentPlan{Difference: d}.changing()); diff != "" {
				t.Errorf("(-want +got)\n%s", diff)
			}
		})
	}
}

func TestRun_NoSocket(t *testing.T) {
	t.Setenv("LISTEN_PID", "1")
	t.Setenv("LISTEN_FDS", "1")
	if err := Run(t.Context(), &host.Host{Root: t.TempDir()}, slog.New(slog.DiscardHandler)); err == nil {
		t.Error("it answers on what was handed to another process")
	}
}
