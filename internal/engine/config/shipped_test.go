package config_test

import (
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"dcm/internal/engine/config"
	"dcm/internal/engine/config/configtest"
	"dcm/internal/engine/config/source"
	"dcm/internal/gpu/partition"
)

func shipped(t testing.TB) configtest.Files {
	t.Helper()
	entries, err := os.ReadDir("../../../packaging/profiles")
	if err != nil {
		t.Fatal(err)
	}
	f := configtest.Files{"etc/dcm/dcm.toml": configtest.Content(t, "../../../packaging/dcm.toml")}
	for _, e := range entries {
		f["usr/lib/dcm/dcm.toml.d/"+e.Name()] = configtest.Content(t, "../../../packaging/profiles/"+e.Name())
	}
	return f
}

func TestShippedFiles_ProfilesWithoutSelection(t *testing.T) {
	got := configtest.Load(t, shipped(t))
	want := config.Defaults()
	for _, name := range []string{"spx-nps1", "dpx-nps1", "dpx-nps2", "tpx-nps1", "qpx-nps1", "qpx-nps2", "qpx-nps4", "cpx-nps1", "cpx-nps2", "cpx-nps4"} {
		compute, memory, _ := strings.Cut(strings.ToUpper(name), "-")
		want.Profiles[name] = partition.Profile{Name: name, Compute: partition.Compute(compute), Memory: partition.Memory(memory)}
	}
	got.Origin = want.Origin
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("config (-want +got):\n%s", diff)
	}
}

func TestShippedFile_SelectByUncommenting(t *testing.T) {
	f := shipped(t)
	f["etc/dcm/dcm.toml"] = strings.Replace(f["etc/dcm/dcm.toml"], "#profile =", "profile =", 1)
	f["etc/dcm/dcm.toml"] = strings.Replace(f["etc/dcm/dcm.toml"], "#units =", "units =", 1)
	c := configtest.Load(t, f)
	if c.Selected != "cpx-nps4" || c.Profile.Compute != partition.CPX {
		t.Errorf("selected %q: %+v", c.Selected, c.Profile)
	}
	if diff := cmp.Diff([]string{"amd-metrics-exporter.service", "gpuagent.service"}, c.Clients); diff != "" {
		t.Errorf("clients (-want +got):\n%s", diff)
	}
}

var assignment = regexp.MustCompile(`(?m)^#(\[.*\]|[a-z-]+ = .*)$`)

func TestShippedFile_ShowsDefaults(t *testing.T) {
	f := shipped(t)
	f["etc/dcm/dcm.toml"] = assignment.ReplaceAllString(f["etc/dcm/dcm.toml"], "$1")
	got := configtest.Load(t, f)
	if len(got.Profiles["mixed"].Groups) != 2 {
		t.Errorf("the example profile is %+v", got.Profiles["mixed"])
	}
	want := config.Defaults()
	want.Profile, want.Selected, want.Source = got.Profile, "cpx-nps4", got.Source
	want.Persistent, want.LastingSource = "cpx-nps4", got.Source
	want.Profiles, want.Origin, want.Clients = got.Profiles, got.Origin, got.Clients
	want.Reservations, want.DeclaredClients, want.Budgets = got.Reservations, got.DeclaredClients, got.Budgets
	want.UserReservations = got.UserReservations
	if want.Warnings = got.Warnings; len(got.Warnings) != 1 || !strings.Contains(got.Warnings[0], ": budget: ") {
		t.Errorf("warnings: got %q, want one, about the budget of an example", got.Warnings)
	}
	want.Leases, want.Observers = config.Leases{Shares: 1, IdleTime: 5 * time.Minute, DwellTime: time.Minute, HeldMemory: config.LastHeldMemory, Clean: config.CleanIfSupported, Groups: got.Leases.Groups}, got.Observers
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("the defaults shown are not the defaults (-want +got):\n%s", diff)
	}

	root, broken := source.ParseTOML("dcm.toml", f["etc/dcm/dcm.toml"])
	if broken != nil {
		t.Fatal(broken)
	}
	for key, r := range config.Schema().Keys {
		if key == "version" || key == "profiles" {
			continue
		}
		if key == "reservation" || key == "client" || key == "budget" {
			for sub := range r.Keys {
				if !slices.ContainsFunc(root.At(key).Items(), func(n *source.Node) bool { return n.At(sub) != nil }) {
					t.Errorf("%s.%s is not in the shipped dcm.toml", key, sub)
				}
			}
			continue
		}
		for sub := range r.Keys {
			if root.At(key, sub) == nil {
				t.Errorf("%s.%s is not in the shipped dcm.toml", key, sub)
			}
		}
		if root.At(key) == nil {
			t.Errorf("%s is not in the shipped dcm.toml", key)
		}
	}
	if !slices.Contains(got.Names(), "mixed") {
		t.Error("the example profile is missing")
	}
}

func BenchmarkLoad(b *testing.B) {
	p := shipped(b).Write(b)
	for b.Loop() {
		if _, err := config.Load(p); err != nil {
			b.Fatal(err)
		}
	}
}
