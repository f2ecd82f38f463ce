package config_test

import (
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"dcm/internal/engine/config"
	"dcm/internal/engine/config/configtest"
	"dcm/internal/engine/config/rule"
	"dcm/internal/engine/config/source"
	"dcm/internal/gpu/partition"
)

func TestLoad_WithoutFiles(t *testing.T) {
	got := configtest.Load(t, nil)
	want := &config.Config{
		Profiles: map[string]partition.Profile{}, Origin: map[string]string{},
		OnFailure: config.Rollback, UnitOfChange: config.Node, ReloadDriver: true, SettleTime: 10 * time.Second, DeviceTimeout: time.Minute, Reboot: config.Never, Drift: config.Repair, Backend: config.Auto,
		Discover: config.Suggest, Leases: config.Leases{Shares: 1, IdleTime: 5 * time.Minute, DwellTime: time.Minute, HeldMemory: config.LastHeldMemory, Clean: config.CleanIfSupported},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("config (-want +got):\n%s", diff)
	}
}

func TestLoad_EveryKey(t *testing.T) {
	got := configtest.Load(t, configtest.Files{"etc/dcm/dcm.toml": configtest.EveryKey})
	mixed := partition.Profile{
		Name: "mixed", Memory: partition.NPS1,
		Skip: []partition.Selector{{Address: "0000:c5:00.0"}, {Index: 7}},
		Groups: []partition.Group{
			{Compute: partition.CPX, Count: 2},
			{Compute: partition.DPX, Settings: partition.Settings{Allocation: partition.Capping, Isolation: partition.NotIsolated}, GPUs: []partition.Selector{{Address: "0000:0c:00.0"}}},
			{Compute: partition.SPX, Rest: true},
		},
	}
	want := &config.Config{
		Profile: mixed, Selected: "mixed", Source: "/etc/dcm/dcm.toml:2",
		Persistent: "mixed", LastingSource: "/etc/dcm/dcm.toml:2",
		Profiles: map[string]partition.Profile{
			"whole": {Name: "whole", Compute: partition.CPX, Memory: partition.NPS4, Settings: partition.Settings{Allocation: partition.All, Isolation: partition.Isolated}},
			"mixed": mixed,
		},
		Origin:   map[string]string{"whole": "/etc/dcm/dcm.toml:88", "mixed": "/etc/dcm/dcm.toml:94"},
		Clients:  []string{"amd-metrics-exporter.service", "gpuagent.service", "vllm@.service", "vllm@7b.service", "feed.socket", "app.v2.service"},
		Require:  true,
		Discover: config.Include,
		DeclaredClients: []config.Client{
			{Unit: "vllm@3.service", GPUs: []partition.Selector{{Index: 3}, {Address: "0000:0c:00.0"}}, Source: got.DeclaredClients[0].Source},
			{Unit: "dcgm-exporter.service", Observer: true, Source: got.DeclaredClients[1].Source},
			{Unit: "llama-swap.service", OnDemand: true, Source: got.DeclaredClients[2].Source}},
		UnitOfChange: config.GPU,
		OnFailure:    config.Keep, AtLoad: true, DeviceTimeout: 90 * time.Second, Reboot: config.Once,
		SettleTime: time.Minute, Budgets: []config.Budget{{Units: []string{"vllm@*.service"}, MaxDown: 2, Source: got.Budgets[0].Source}}, Warnings: got.Warnings,
		Drift: config.Report, Backend: config.AMDSMI, Library: "/opt/rocm/lib/libamd_smi.so", Count: 8,
		Metrics: "/var/lib/node_exporter", Agent: true,
		Leases: config.Leases{PerUser: 8, SlotsPerUser: 16, IdleTime: 10 * time.Minute, DwellTime: 30 * time.Second, HeldMemory: config.RefuseHeldMemory, Clean: config.CleanRequired, Devices: []string{"/dev/infiniband/uverbs*", "/dev/fuse"}, Shares: 4, DefaultTime: 90 * time.Minute, MaxTime: 24 * time.Hour, Groups: []config.GroupLimits{
			{Name: "1005", MaxTime: 30 * time.Minute, Devices: []string{"/dev/net/tun"}}, {Name: "course", PerUser: 2, Total: 16}}},
		UserReservations: []config.UserReservation{{User: "alice", GPUs: []partition.Selector{{Index: 0}}, Hours: got.UserReservations[0].Hours, Source: got.UserReservations[0].Source}},
		Observers:        []string{"amd-metrics-exporter.service"},
		Reservations: []config.Reservation{{Name: "vllm-7b", Unit: "vllm@7b.service", Partitions: 2, Place: "link", Exclusive: true, Sought: partition.Criteria{Vendor: partition.AMD, Mode: "CPX"},
			GPUs: []partition.Selector{{Index: 1}}, Devices: []string{"/dev/infiniband/uverbs*"}, Source: got.Reservations[0].Source},
			{Name: "notebook", Unit: "notebook@.service", Partitions: 1, Place: "pack", Share: 3, Source: got.Reservations[1].Source},
			{Name: "llm", Unit: "llm@.service", Make: "2g.20gb", Place: "pack", GPUs: []partition.Selector{{Index: 2}}, Source: got.Reservations[2].Source},
			{Name: "vllm-3", Unit: "vllm@3.service", Whole: true, Place: "pack", GPUs: []partition.Selector{{Index: 3}, {Address: "0000:0c:00.0"}}, Source: got.DeclaredClients[0].Source}},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("config (-want +got):\n%s", diff)
	}
}

func TestFormat_EveryKey(t *testing.T) {
	c := configtest.Load(t, configtest.Files{"etc/dcm/dcm.toml": configtest.EveryKey, "run/dcm/dcm.toml.d/zz-selected.toml": "profile = \"whole\"\n"})
	root, problem := source.ParseTOML("f", config.Format(c))
	if problem != nil {
		t.Fatal(problem)
	}
	for key, r := range config.Schema().Keys {
		for sub := range r.Keys {
			if slices.ContainsFunc(root.At(key).Items(), func(n *source.Node) bool { return n.At(sub) != nil }) {
				continue
			}
			if sub != rule.AnyName && root.At(key, sub) == nil {
				t.Errorf("%s.%s is not written", key, sub)
			}
		}
		if root.At(key) == nil {
			t.Errorf("%s is not written", key)
		}
	}
}
