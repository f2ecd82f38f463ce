package config_test

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"dcm/internal/engine/config"
	"dcm/internal/gpu/partition"
)

func TestLoad_Clients(t *testing.T) {
	p := written(t, map[string]string{
		"dcm.toml": "[[client]]\nunit = \"vllm@3\"\ngpus = [3]\n",
		"dcm.toml.d/50-more.toml": "[[client]]\nunit = \"dcgm-exporter\"\nobserver = true\n[[client]]\nunit = \"feed.socket\"\n" +
			"[[client]]\nunit = \"swap@\"\nopens = \"on-demand\"\n[[client]]\nunit = \"always\"\nopens = \"always\"\n",
	})
	cfg, err := config.Load(p)
	if err != nil {
		t.Fatal(err)
	}
	for i := range cfg.DeclaredClients {
		cfg.DeclaredClients[i].Source = ""
	}
	want := []config.Client{{Unit: "vllm@3.service", GPUs: []partition.Selector{{Index: 3}}}, {Unit: "dcgm-exporter.service", Observer: true}, {Unit: "feed.socket"},
		{Unit: "swap@.service", OnDemand: true}, {Unit: "always.service"}}
	if diff := cmp.Diff(want, cfg.DeclaredClients); diff != "" {
		t.Errorf("clients (-want +got):\n%s", diff)
	}
	for unit, want := range map[string]bool{"vllm@3.service": true, "swap@1.service": false, "always.service": true, "other.service": true} {
		if got := cfg.OpensAlways(unit); got != want {
			t.Errorf("%s opens a GPU always: got %t, want %t", unit, got, want)
		}
	}
	if len(cfg.Reservations) != 1 || cfg.Reservations[0].Name != "vllm-3" || !cfg.Reservations[0].Whole || !cfg.PerGPU() {
		t.Errorf("reservations %+v, per GPU %t", cfg.Reservations, cfg.PerGPU())
	}
	if got, lost := config.Reservations(p); len(got) != 1 || !got[0].Whole || len(lost) != 0 {
		t.Errorf("reservations alone: %+v, lost %q", got, lost)
	}
}

// Configurations without the new keys behave as before.
func TestConfig_PerGPU(t *testing.T) {
	for text, want := range map[string]bool{
		"": false, "[clients]\nunits = [\"a\"]\n": false, "[apply]\nunit-of-change = \"node\"\n": false,
		"[[reservation]]\nunit = \"a\"\npartitions = 1\n": false, "[apply]\nunit-of-change = \"gpu\"\n": true, "[[client]]\nunit = \"a\"\n": true,
		"[clients]\nrequire = true\n": false, "[clients]\nrequire = true\n[[client]]\nunit = \"a\"\n": true,
	} {
		cfg, err := config.Load(written(t, map[string]string{"dcm.toml": text}))
		if err != nil || cfg.PerGPU() != want {
			t.Errorf("%q: per GPU %t, %v, want %t", text, cfg.PerGPU(), err, want)
		}
	}
}

func TestLoad_BadClients(t *testing.T) {
	for _, tt := range []struct{ text, want string }{
		{"[[client]]\ngpus = [1]\n", `:1: client: unit is missing; accepted: unit = "vllm@3.service"`},
		{"[[client]]\nunit = \"a\"\ngpus = []\n", ":3: client.gpus: the list is empty; accepted: the GPUs that the unit uses, or no gpus key for any"},
		{"[[client]]\nunit = \"a\"\ngpus = [1]\nobserver = true\n", ":3: client.gpus: an observer watches all GPUs; accepted: gpus or observer = true"},
		{"[[client]]\nunit = \"a.socket\"\ngpus = [1]\n", ":2: client.unit = \"a.socket\": only a service can be confined to GPUs; accepted: a .service unit, or no gpus key"},
		{"[[client]]\nunit = \"a@\"\ngpus = [1]\n", ":2: client.unit = \"a@\": a template cannot be confined to GPUs; accepted: an instance, such as a@a.service"},
		{"[[client]]\nunit = \"a\"\n[[client]]\nunit = \"a.service\"\n", ":3: client: a.service is already declared, at "},
		{"[[client]]\nunit = \"a\"\ngpus = [1]\n[[reservation]]\nunit = \"a\"\npartitions = 1\n", ":1: client: a.service already has a reservation, at "},
		{"[[client]]\nunit = \"a\"\nobserver = 1\n", ":3: client.observer = 1: must be true or false"},
		{"[[client]]\nunit = \"a\"\nopens = \"never\"\n", `:3: client.opens = "never": not a known value; accepted: always, on-demand`},
		{"[apply]\nunit-of-change = \"gpus\"\n", `did you mean "gpu"?`},
	} {
		if _, err := config.Load(written(t, map[string]string{"dcm.toml": tt.text})); err == nil || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%q: %v, want %q", tt.text, err, tt.want)
		}
	}
}

// A client whose table has an error must not start with all devices.
func TestReservations_BrokenClient(t *testing.T) {
	got, _ := config.Reservations(written(t, map[string]string{"dcm.toml": "[[client]]\nunit = \"a\"\ngpus = [-1]\n"}))
	if len(got) != 1 || got[0].Unit != "a.service" || !got[0].Broken {
		t.Errorf("reservations: %+v", got)
	}
}

// A version refuses a file with a table of a newer version, and names it. It keeps the reservations,
// since their services must not start with all devices.
func TestLoad_NewerTable(t *testing.T) {
	p := written(t, map[string]string{"dcm.toml": "[[reservation]]\nunit = \"a\"\npartitions = 1\n[[newer]]\nunit = \"b\"\n"})
	if _, err := config.Load(p); err == nil || !strings.Contains(err.Error(), "dcm.toml:4: newer: unknown key") {
		t.Errorf("load: got %v, want the unknown key on line 4", err)
	}
	if got, lost := config.Reservations(p); len(got) != 1 || got[0].Unit != "a.service" || got[0].Broken || len(lost) != 0 {
		t.Errorf("reservations: got %+v, lost %q, want that of a.service", got, lost)
	}
}
