package plan

import (
	"encoding/json"
	"errors"
	"testing"

	"github.com/google/go-cmp/cmp"

	"dcm/internal/engine/apply"
	"dcm/internal/engine/config"
	"dcm/internal/engine/daemon"
	"dcm/internal/engine/host"
	"dcm/internal/engine/runstate"
	"dcm/internal/gpu"
	"dcm/internal/gpu/partition"
)

// newOutlooker returns an outlooker for two GPUs of which a process has the first one open.
func newOutlooker(t *testing.T, refusing bool) outlooker {
	t.Helper()
	var devices []gpu.Device
	for _, a := range []partition.Address{amd0, amd1} {
		g := partition.GPU{Address: a, Device: 0x74a1, XCC: 8, Compute: partition.SPX, Memory: "NPS1", AvailableMemory: []partition.Memory{"NPS1", "NPS4"}}
		g.AvailableCompute = []partition.Compute{partition.SPX, partition.DPX, partition.QPX, partition.CPX}
		devices = append(devices, gpu.Device{GPU: g, ExclusiveNodes: []string{"/dev/dri/renderD128"}})
	}
	profiles := map[string]partition.Profile{}
	for _, p := range []partition.Profile{{Name: "cpx", Compute: partition.CPX}, {Name: "nps4", Compute: partition.CPX, Memory: "NPS4"}, {Name: "spx", Compute: partition.SPX}, {Name: "odd", Compute: partition.TPX}} {
		profiles[p.Name] = p
	}
	return outlooker{
		host: &host.Host{Root: t.TempDir()}, cfg: &config.Config{Profiles: profiles, ReloadDriver: true}, devices: devices,
		use: gpu.Usage{Holders: []gpu.Holder{{PID: 7, Command: "python3", Devices: []string{"/dev/dri/renderD128"}, Vendors: []partition.Vendor{partition.AMD}}}},
		foresee: func(_ apply.Difference, blocking []runstate.Holder) (daemon.Forecast, error) {
			f := daemon.Forecast{Restarted: []string{"a.service"}}
			if refusing {
				f = daemon.Forecast{Holders: blocking, Refused: runstate.InUse(blocking)}
			}
			return f, nil
		},
	}
}

func TestOutlook(t *testing.T) {
	for _, tt := range []struct {
		profile            string
		refusing           bool
		steps, gpus        int
		mode               string
		reload             bool
		clients, holders   int
		refused, supported bool
	}{
		{"spx", true, 0, 0, "", false, 0, 0, false, true},
		{"cpx", false, 2, 2, "CPX/NPS1", false, 1, 0, false, true},
		{"cpx", true, 2, 2, "CPX/NPS1", false, 0, 1, true, true},
		{"nps4", false, 3, 2, "CPX/NPS4", true, 1, 0, false, true},
		{"odd", false, 0, 0, "", false, 0, 0, false, false},
	} {
		o, err := newOutlooker(t, tt.refusing).of(tt.profile)
		if err != nil {
			t.Fatal(err)
		}
		mode := ""
		if len(o.GPUs) > 0 {
			mode = o.GPUs[0].Mode
		}
		got := []any{len(o.Steps), len(o.GPUs), mode, o.Reload, len(o.Clients), len(o.Holders), o.Refused != nil, o.Error == nil}
		want := []any{tt.steps, tt.gpus, tt.mode, tt.reload, tt.clients, tt.holders, tt.refused, tt.supported}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%s: steps, GPUs, mode, reload, clients, holders, refused, supported (-want +got):\n%s", tt.profile, diff)
		}
	}
}

// Readers of the JSON may rely on every list.
func TestOutlook_NoNullInJSON(t *testing.T) {
	o, err := newOutlooker(t, false).of("spx")
	if err != nil {
		t.Fatal(err)
	}
	text, err := json.Marshal(o)
	if err != nil {
		t.Fatal(err)
	}
	if want := `{"profile":"spx","steps":[],"clients":[],"reload":false,"holders":[],"left":[],"rounds":[],"gpus":[]}`; string(text) != want {
		t.Errorf("got  %s\nwant %s", text, want)
	}
}

// A refusal that is not known is no plan without one.
func TestOutlook_WithoutPID1(t *testing.T) {
	o := newOutlooker(t, false)
	o.foresee = func(apply.Difference, []runstate.Holder) (daemon.Forecast, error) {
		return daemon.Forecast{}, errors.New("no answer")
	}
	if _, err := o.of("cpx"); err == nil {
		t.Error("want the error of PID 1")
	}
}
