package cli

import (
	"encoding/json"
	"maps"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"dcm/internal/app/selftest"
	"dcm/internal/engine/host"
	"dcm/internal/engine/runstate"
	"dcm/internal/gpu/nvml/standin"
	"dcm/internal/gpu/partition"
	"dcm/internal/testkit/sim"
	"dcm/internal/testkit/sim/simtest"
)

// TestClaims_MatchSimulator takes each kind of simulated node through its modes,
// and compares what there is to see with what a self-test has for the simulator's claims.
// DCM_CLAIMS=write updates the file.
func TestClaims_MatchSimulator(t *testing.T) {
	const file = "../selftest/claims.json"
	got := make(selftest.Facts)
	for _, kind := range []string{"mi300x-8", "mi325x-8", "mi355x-8", "mi300a-4"} {
		claimedBy(t, got, kind)
	}
	for _, kind := range []string{"a100-8", "h100-8", "b200-8", "a30-4", "rtx-pro-6000-4"} {
		claimedByLibrary(t, got, kind)
	}
	if os.Getenv("DCM_CLAIMS") == "write" {
		text, err := json.MarshalIndent(got, "", "  ")
		if err == nil {
			err = os.WriteFile(file, append(text, '\n'), 0o644)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	claims, err := selftest.Claims()
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(got, claims); diff != "" {
		t.Errorf("claims (-simulator +%s); DCM_CLAIMS=write updates the file:\n%s", file, diff)
	}
}

// claimedBy reads a node in each of its modes, as a self-test does.
func claimedBy(t *testing.T, facts selftest.Facts, kind string) {
	t.Helper()
	node := simtest.Start(t, kind, sim.Options{})
	h := &host.Host{Root: t.TempDir()}
	for name, target := range map[string]string{"proc": "/proc", "sys": node.Sys, "dev": node.Dev} {
		if err := os.Symlink(target, filepath.Join(h.Root, name)); err != nil {
			t.Fatal(err)
		}
	}
	look := func() selftest.Views {
		t.Helper()
		v, err := selftest.ReadViews(t.Context(), h, nil)
		if err != nil || v.Hidden != nil {
			t.Fatal(err, v.Hidden)
		}
		return v
	}
	var gpus []partition.GPU
	for _, g := range look().GPUs {
		gpus = append(gpus, g.GPU)
	}
	for _, target := range selftest.Targets(gpus, true) {
		if target.SkipReason != "" {
			continue
		}
		one := gpus[0].Address // which says it for all; a memory mode is of the hive
		reload(t, facts, node, look, one, target.Want[one].Memory)
		if err := node.SetCompute(t.Context(), one, string(target.Want[one].Compute)); err != nil {
			t.Fatal(err)
		}
		facts.AddGPUs(look().GPUs)
	}
	reload(t, facts, node, look, gpus[0].Address, gpus[0].Memory)
}

// reload has the driver come up with a memory mode, if it has not.
func reload(t *testing.T, facts selftest.Facts, node *simtest.Node, look func() selftest.Views, gpu partition.Address, m partition.Memory) {
	t.Helper()
	for _, g := range node.State().GPUs {
		if g.Address == gpu && g.Memory == m {
			return
		}
	}
	if err := node.SetMemory(t.Context(), gpu, string(m)); err != nil {
		t.Fatal(err)
	}
	if err := node.Reload(t.Context()); err != nil {
		t.Fatal(err)
	}
	run := runstate.Run{Steps: []runstate.Step{{Step: partition.Step{Kind: partition.ReloadDriver}}}}
	for _, g := range look().GPUs {
		run.GPUs = append(run.GPUs, runstate.GPU{Address: g.Address, Model: g.Model, Now: g.Shape()})
	}
	facts.AddDriverDefault(run)
}

// claimedByLibrary adds what the stand-in of the vendor's library returns for a kind of node.
func claimedByLibrary(t *testing.T, facts selftest.Facts, kind string) {
	t.Helper()
	k, err := sim.LookupKind(kind)
	if err != nil {
		t.Fatal(err)
	}
	s, err := standin.New("580.82.07", "")
	if err != nil {
		t.Fatal(err)
	}
	for _, b := range k.Boards {
		if err := s.Add(b.Chip.MIG, b.Address); err != nil {
			t.Fatal(err)
		}
		one := s.GPUs[len(s.GPUs)-1]
		g := selftest.GPU{Model: strings.TrimPrefix(b.Chip.Product, "NVIDIA ")}
		g.Vendor, g.Device, g.MIG, g.ModeResetsGPU = partition.Vendor(b.Chip.Vendor), b.Chip.Device, &partition.MIG{Off: true}, one.Resetless != 1
		for _, p := range one.Profiles {
			g.Profiles = append(g.Profiles, partition.InstanceProfile{Name: strings.TrimPrefix(p.Name, "MIG "), ID: p.ID, InstanceCount: p.Max, Size: p.Size, Starts: p.Starts})
		}
		facts.AddGPUs([]selftest.GPU{g})
	}
}

func TestClaims_EveryModel(t *testing.T) {
	claims, err := selftest.Claims()
	if err != nil {
		t.Fatal(err)
	}
	devices := make(map[string]bool)
	for facts := range maps.Values(claims) {
		devices[facts["PCI device"]] = true
	}
	for _, want := range []string{"0x1002:0x74a1", "0x1002:0x75a3", "0x1002:0x74a0", "0x10de:0x20b2", "0x10de:0x2330", "0x10de:0x2901"} {
		if !devices[want] {
			t.Errorf("there are no claims of %s", want)
		}
	}
}
