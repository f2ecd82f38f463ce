package amdgpu

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"dcm/internal/gpu"
	"dcm/internal/gpu/partition"
	"dcm/internal/testkit/sim"
	"dcm/internal/testkit/sim/simtest"
)

// unknownModel opens a node of a model without a stored table of modes. The node has booted in the
// given memory mode.
func unknownModel(t *testing.T, boot partition.Memory, opts ...Option) (*simtest.Node, *gpu.Node, modeTables) {
	t.Helper()
	s := simtest.Start(t, "unknown-8", sim.Options{Memory: boot})
	p := newParts(gpu.Roots{Sys: s.Sys, Proc: t.TempDir(), Dev: s.Dev}, opts...)
	return s, gpu.Open(s.Sys, []gpu.Vendor{p.vendor()}), p.tables
}

func inspect(t *testing.T, node *gpu.Node) []partition.GPU {
	t.Helper()
	devices, err := node.Devices(patient(t))
	if err != nil {
		t.Fatal(err)
	}
	return gpu.Partitionable(devices)
}

// A plan across memory modes is refused exactly if the device refuses the compute mode
// after the driver load.
func TestPlan_UnknownModel(t *testing.T) {
	accepted := make(map[partition.Mode]bool)
	for _, m := range partition.MemoryModes() {
		s, node, _ := unknownModel(t, m)
		first := inspect(t, node)[0]
		if first.Memory != m {
			continue // the device does not support it
		}
		for _, c := range partition.ComputeModes() {
			err := os.WriteFile(s.Sys+"/bus/pci/devices/"+string(first.Address)+"/"+computeFile, []byte(c), 0o644)
			accepted[partition.Mode{Compute: c, Memory: m}] = err == nil
		}
	}
	_, node, n := unknownModel(t, partition.NPS1, FactDir(t.TempDir()))
	if changed, err := n.read(patient(t), inspect(t, node)); err != nil || !changed {
		t.Fatalf("no table was stored: %v", err)
	}
	gpus := inspect(t, node)
	for _, c := range partition.ComputeModes() {
		for _, m := range partition.MemoryModes() {
			p := partition.Profile{Name: "p", Compute: c, Memory: m}
			layout, err := p.Layout(gpus)
			if err != nil {
				t.Fatal(err)
			}
			_, err = partition.Plan(layout, gpus)
			if want := accepted[partition.Mode{Compute: c, Memory: m}]; (err == nil) != want {
				t.Errorf("%s/%s: the device accepts it: %t; the plan: %v", c, m, want, err)
			}
		}
	}
}

// Without a table, the plan uses the device's list for the current selection.
func TestDescribe_CurrentSelection(t *testing.T) {
	s, node, _ := unknownModel(t, partition.NPS1, FactDir(t.TempDir()))
	g := inspect(t, node)[0]
	if text := partition.List(g.MemoryFor[partition.SPX]); text != "NPS1" || len(g.MemoryFor) != 1 {
		t.Errorf("SPX: %q, of %d entries", text, len(g.MemoryFor))
	}
	if text := partition.List(g.SupportedCompute); text != "SPX, DPX, TPX, QPX, CPX" {
		t.Errorf("supported are %s", text)
	}
	if n := configWrites(s); n != 0 {
		t.Errorf("a reader wrote to %s %d times", xcpConfig, n)
	}
}

func configWrites(s *simtest.Node) (n int) {
	for _, g := range s.State().GPUs {
		n += g.Writes["xcp_config"]
	}
	return n
}

func TestModeTables_OncePerLoad(t *testing.T) {
	s, node, n := unknownModel(t, partition.NPS1, FactDir(t.TempDir()))
	g := inspect(t, node)[0]
	if err := os.WriteFile(n.attribute(g.Address, xcpConfig), []byte("CPX"), 0o644); err != nil {
		t.Fatal(err)
	}
	for round, want := range []bool{true, false} {
		if changed, err := n.read(patient(t), inspect(t, node)); err != nil || changed != want {
			t.Errorf("round %d: changed %t, %v", round, changed, err)
		}
	}
	if n := configWrites(s); n != 1+8*6 {
		t.Errorf("%d writes to %s, want one for each mode and one to restore it", n, xcpConfig)
	}
	selected, err := os.ReadFile(n.attribute(g.Address, xcpConfig))
	if err != nil || strings.TrimSpace(string(selected)) != "CPX" {
		t.Errorf("the selection is %q, %v", selected, err)
	}
	// Another load of the driver makes the stored table invalid.
	file := filepath.Join(n.facts.dir, string(g.Address)+".json")
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	for _, changed := range [][2]string{{`"driver": "`, `"driver": "0`}, {`"version": 1`, `"version": 2`}} {
		other := strings.Replace(string(text), changed[0], changed[1], 1)
		if err := os.WriteFile(file, []byte(other), 0o644); err != nil || other == string(text) {
			t.Fatalf("replacing %s: %v", changed[0], err)
		}
		if table, ok := storedFact[modeTable](n.facts, string(g.Address)); ok {
			t.Errorf("the table with %s is used: %+v", changed[1], table)
		}
	}
}
