package config

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"dcm/internal/gpu/partition"
)

// files is a tree by path below the root.
type files map[string]string

// write makes a root with the files, as root or whoever runs the test owns them.
func (f files) write(t testing.TB) Paths {
	t.Helper()
	root := t.TempDir()
	for name, text := range f {
		path := filepath.Join(root, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	return DefaultPaths(root)
}

// root is the directory that DefaultPaths was given.
func (p Paths) root() string { return strings.TrimSuffix(p.Cmdline, "/proc/cmdline") }

// complaint is the text of the error with paths as on a host.
func complaint(t *testing.T, p Paths) string {
	t.Helper()
	c, err := Load(p)
	if err == nil {
		t.Fatalf("Load accepted it: %+v", c)
	}
	var all *Errors
	if !errors.As(err, &all) {
		t.Fatalf("Load returned a %T, not *Errors: %v", err, err)
	}
	return strings.ReplaceAll(err.Error(), p.root(), "")
}

func load(t *testing.T, f files) *Config {
	t.Helper()
	p := f.write(t)
	c, err := Load(p)
	if err != nil {
		t.Fatal(err)
	}
	c.Source = strings.TrimPrefix(c.Source, p.root())
	c.LastingSource = strings.TrimPrefix(c.LastingSource, p.root())
	for name, at := range c.Origin {
		c.Origin[name] = strings.TrimPrefix(at, p.root())
	}
	for i, w := range c.Warnings {
		c.Warnings[i] = strings.ReplaceAll(w, p.root(), "")
	}
	return c
}

func TestNothingConfiguredSelectsNothing(t *testing.T) {
	got := load(t, nil)
	want := &Config{
		Profiles: map[string]partition.Profile{}, Origin: map[string]string{},
		OnFailure: Rollback, ReloadDriver: true, DeviceTimeout: time.Minute, Reboot: Never, Drift: Repair, Backend: Auto,
		Discover: Suggest, Leases: Leases{Shares: 1},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("config (-want +got):\n%s", diff)
	}
}

// everyKey is a file that sets each key, none to its default.
const everyKey = `version = 1
profile = "mixed"

[clients]
units   = ["amd-metrics-exporter", "gpuagent.service", "vllm@", "vllm@7b", "feed.socket", "app.v2"]
require = true
discover = "include"

[apply]
on-failure     = "keep"
reload-driver  = false
at-load        = true
device-timeout = "1m30s"
reboot         = "once"

[daemon]
drift = "report"

[gpu]
backend = "amdsmi"
library = "/opt/rocm/lib/libamd_smi.so"
count = 8

[leases]
max-per-user = 8
default-time = "90m"
max-time = "24h"
shares = 4

[leases.groups.course]
max-per-user = 2
max-total = 16
[leases.groups.1005]
max-time = "30m"

[guard]
observers = ["amd-metrics-exporter"]

[metrics]
textfile = "/var/lib/node_exporter"

[agent]
enabled = true

[[reservation]]
unit = "vllm@7b"
partitions = 2
place = "link"
vendor = "amd"
mode = "CPX"
exclusive = true
gpus = [1]
[[reservation]]
unit = "notebook@"
partitions = 1
share = 3

[profiles.whole]
compute = "CPX"
memory  = "NPS4"

[profiles.mixed]
memory = "NPS1"
skip   = ["0000:C5:00.0", 7]
[[profiles.mixed.group]]
compute = "CPX"
count   = 2
[[profiles.mixed.group]]
compute = "DPX"
gpus    = ["0c:00.0"]
[[profiles.mixed.group]]
compute = "SPX"
count   = "rest"
`

func TestEveryKeyIsRead(t *testing.T) {
	got := load(t, files{"etc/dcm/dcm.toml": everyKey})
	mixed := partition.Profile{
		Name: "mixed", Memory: partition.NPS1,
		Skip: []partition.Selector{{Address: "0000:c5:00.0"}, {Index: 7}},
		Groups: []partition.Group{
			{Compute: partition.CPX, Count: 2},
			{Compute: partition.DPX, GPUs: []partition.Selector{{Address: "0000:0c:00.0"}}},
			{Compute: partition.SPX, Rest: true},
		},
	}
	want := &Config{
		Profile: mixed, Selected: "mixed", Source: "/etc/dcm/dcm.toml:2",
		Persistent: "mixed", LastingSource: "/etc/dcm/dcm.toml:2",
		Profiles: map[string]partition.Profile{
			"whole": {Name: "whole", Compute: partition.CPX, Memory: partition.NPS4},
			"mixed": mixed,
		},
		Origin:    map[string]string{"whole": "/etc/dcm/dcm.toml:58", "mixed": "/etc/dcm/dcm.toml:62"},
		Clients:   []string{"amd-metrics-exporter.service", "gpuagent.service", "vllm@.service", "vllm@7b.service", "feed.socket", "app.v2.service"},
		Require:   true,
		Discover:  Include,
		OnFailure: Keep, AtLoad: true, DeviceTimeout: 90 * time.Second, Reboot: Once,
		Drift: Report, Backend: AMDSMI, Library: "/opt/rocm/lib/libamd_smi.so", Count: 8,
		Metrics: "/var/lib/node_exporter", Agent: true,
		Leases: Leases{PerUser: 8, Shares: 4, DefaultTime: 90 * time.Minute, MaxTime: 24 * time.Hour, Groups: []GroupLimits{
			{Name: "1005", MaxTime: 30 * time.Minute}, {Name: "course", PerUser: 2, Total: 16}}},
		Observers: []string{"amd-metrics-exporter.service"},
		Reservations: []Reservation{{Name: "vllm-7b", Unit: "vllm@7b.service", Partitions: 2, Place: "link", Exclusive: true, Sought: partition.Criteria{Vendor: partition.AMD, Mode: "CPX"},
			GPUs: []partition.Selector{{Index: 1}}, Source: got.Reservations[0].Source},
			{Name: "notebook", Unit: "notebook@.service", Partitions: 1, Place: "pack", Share: 3, Source: got.Reservations[1].Source}},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("config (-want +got):\n%s", diff)
	}
}
