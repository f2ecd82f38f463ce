package gather

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"dcm/internal/engine/config"
	"dcm/internal/engine/host"
	"dcm/internal/engine/host/hosttest"
	"dcm/internal/frontends/status"
	"dcm/internal/gpu/partition"
	"dcm/internal/leases/reservation"
	"dcm/internal/testkit/sim"
	"dcm/internal/testkit/sim/simtest"
)

// A kernel with 64 minors has none left for the last partition if the BMC's display uses one.
func TestInventory_PartitionWithoutMinor(t *testing.T) {
	for _, kernel := range []string{"5.14.0-427.el9", "6.12.0-new"} { // the second version number does not show the limit
		node := simtest.Start(t, "mi300x-8-bmc", sim.Options{OldMinors: true, Parameters: sim.Parameters{Mode: partition.CPX}})
		root := t.TempDir()
		h := &host.Host{Root: root}
		hosttest.Plant(t, h.Root, "proc/sys/kernel/osrelease", kernel+"\n")
		if err := os.Symlink(node.Sys, filepath.Join(root, "sys")); err != nil {
			t.Fatal(err)
		}
		s, err := Inventory(t.Context(), h, nil, status.Inventory{}, false)
		if err != nil || len(s.Problems) != 1 || s.Problems[0].State != status.Nodeless {
			t.Fatalf("%s: problems: got %+v, %v", kernel, s.Problems, err)
		}
		if text := s.Problems[0].Text; !strings.HasPrefix(text, "0000:e5:00.0-7 gets no device node: the GPUs and ") || !strings.Contains(text, "take 65 DRM devices") {
			t.Errorf("%s: text: got %s", kernel, text)
		}
		if n := len(s.Parts); n != 63 {
			t.Errorf("%s: partitions: got %d", kernel, n)
		}
		gpus := partition.Typical(0x74a1, 8)
		for i := range gpus {
			gpus[i].Address, gpus[i].Compute = partition.Address(s.GPUs[i+1].Address), partition.CPX
		}
		list := []config.Reservation{{Name: "a", Partitions: 63, Source: "dcm.toml:3"}, {Name: "b", Partitions: 1, Source: "dcm.toml:7"}}
		const want = "dcm.toml:7: reservation b cannot be met: 64 partitions reserved (a 63, b 1), and there are 63"
		if err := reservation.Fits(h, list)(gpus); err == nil || err.Error() != want {
			t.Errorf("%s: 64 reservations: %v, want %s", kernel, err, want)
		}
		if err := reservation.Fits(h, list[:1])(gpus); err != nil {
			t.Errorf("%s: 63 reservations: %v", kernel, err)
		}
	}
	node := simtest.Start(t, "mi300x-8-bmc", sim.Options{Parameters: sim.Parameters{Mode: partition.CPX}})
	h := &host.Host{Root: t.TempDir()}
	if err := os.Symlink(node.Sys, h.Path("sys")); err != nil {
		t.Fatal(err)
	}
	hosttest.Plant(t, h.Root, "proc/sys/kernel/osrelease", "5.14.0-503.el9\n") // supports more minors than its version suggests
	if s, err := Inventory(t.Context(), h, nil, status.Inventory{}, false); err != nil || len(s.Problems) > 0 || len(s.Parts) != 64 {
		t.Errorf("kernel with more minors: %+v, %d partitions, %v", s.Problems, len(s.Parts), err)
	}
}

// An instance of a lease that is not destroyed is a problem, so that the exit status of dcm status is not 0.
func TestInventory_InstanceNotDestroyed(t *testing.T) {
	const reason = "3g.40gb at slot 0 of 0000:1b:00.0 is not destroyed: in use (19)"
	h := &host.Host{Root: t.TempDir()}
	claim := filepath.Join(host.Claims(h).Dir, "lease-1000-4f1c09aa_0000:1b:00.0_3g.40gb_0")
	if err := os.MkdirAll(claim, 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(claim, "ending"), []byte(reason), 0o644); err != nil {
		t.Fatal(err)
	}
	s, err := InventoryOf(t.Context(), h, nil, nil, status.Inventory{})
	if err != nil || len(s.Problems) != 1 || s.Problems[0].State != status.Faulty || s.Problems[0].Text != reason || s.Problems[0].Hint == "" || len(s.Warnings) > 0 {
		t.Errorf("problems %+v, warnings %q, %v", s.Problems, s.Warnings, err)
	}
}

// Of each kind of node, the driver shows all partitions.
func TestInventory_AllPartitionsShown(t *testing.T) {
	for _, k := range sim.Kinds() {
		node := simtest.Start(t, k.Name, sim.Options{})
		h := &host.Host{Root: t.TempDir()}
		if err := os.Symlink(node.Sys, h.Path("sys")); err != nil {
			t.Fatal(err)
		}
		s, err := Inventory(t.Context(), h, nil, status.Inventory{}, false)
		if err != nil {
			t.Errorf("%s: %v", k.Name, err)
		}
		for _, g := range s.GPUs {
			if text := (status.Account{Parts: s.Parts}).Lacking(g); text != "" {
				t.Errorf("%s: %s", k.Name, text)
			}
		}
	}
}
