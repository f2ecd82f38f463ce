package reservations

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"dcm/internal/engine/config"
	"dcm/internal/engine/host"
	"dcm/internal/engine/runstate"
	"dcm/internal/gpu"
	"dcm/internal/gpu/made"
	"dcm/internal/gpu/partition"
	"dcm/internal/leases/lease"
)

// Otherwise a partition of a lease could be chosen for a reservation.
func TestPublish_LeasesUnknown(t *testing.T) {
	root := t.TempDir()
	h := &host.Host{Root: root} // whose systemd cannot be asked
	links := lease.Links{Dir: h.Path("dev/dcm")}
	before := map[string][]string{"llm": {"/dev/dri/renderD128"}}
	if err := errors.Join(os.MkdirAll(h.Path("sys/fs/cgroup/dcm.slice/dcm-lease-0-4f1c09aa.scope"), 0o755), os.MkdirAll(h.Runtime(), 0o755), links.Write(before)); err != nil {
		t.Fatal(err)
	}
	s := Publisher{Host: h, Node: host.OpenNode(h, nil), Devices: host.OpenNode(h, nil).Devices, Reserved: []config.Reservation{{Name: "llm", Partitions: 1}}, Log: slog.New(slog.DiscardHandler)}
	if _, err := s.Publish(t.Context()); err == nil || !strings.Contains(err.Error(), "the devices of leases") {
		t.Errorf("publish: %v", err)
	}
	now, err := links.Read()
	if diff := cmp.Diff(before, now); diff != "" || err != nil {
		t.Errorf("links, %v, (-want +got):\n%s", err, diff)
	}
}

// PID 1 is busy during a restart.
func TestLeased_NoneWithoutReservations(t *testing.T) {
	if nodes, err := (Publisher{}).leased(t.Context()); nodes != nil || err != nil {
		t.Errorf("nodes of leases: %q, %v", nodes, err)
	}
	// A host without systemd, which would be an error.
	s := Publisher{Host: &host.Host{Root: t.TempDir()}, Reserved: []config.Reservation{{Name: "llm"}}}
	if nodes, err := s.leased(t.Context()); nodes != nil || err != nil {
		t.Errorf("without leases: %q, %v", nodes, err)
	}
}

// listed writes the list of a run with one partition.
func listed(t *testing.T, h *host.Host, kind string, p runstate.Partitions) {
	t.Helper()
	p.Version, p.Boot = runstate.Version, h.BootID()
	p.Parts = []runstate.Part{{Name: "0000:05:00.0-0", GPU: "0000:05:00.0", Kind: kind, Render: "/dev/dri/renderD128"}}
	if err := errors.Join(os.MkdirAll(h.Runtime(), 0o755), runstate.PartitionsIn(h.Runtime()).Write(p)); err != nil {
		t.Fatal(err)
	}
}

// On a host without another reservation nothing has created /dev/dcm before the first service creates its
// instance.
func TestPublishParts_FirstLinks(t *testing.T) {
	h := &host.Host{Root: t.TempDir()}
	n := made.Name{Lease: "llm.service", GPU: "0000:61:00.0", Profile: "1g.10gb", Start: 3}
	listed(t, h, "nvidia 1g.10gb", runstate.Partitions{Reservations: []runstate.Reservation{{Name: "llm", Unit: "llm.service", Make: n.Profile}}})
	if err := os.MkdirAll(filepath.Join(h.Path(made.Dir), n.String()), 0o755); err != nil {
		t.Fatal(err)
	}
	devices := []gpu.Device{{GPU: partition.GPU{Address: n.GPU, Vendor: partition.NVIDIA}, Parts: []gpu.Part{{Index: n.Start, Profile: n.Profile, Node: "/dev/nvidia-caps/nvidia-cap30"}}}}
	s := Publisher{Host: h, Node: host.OpenNode(h, nil), Devices: func(context.Context) ([]gpu.Device, error) { return devices, nil }, Log: slog.New(slog.DiscardHandler)}
	if err := s.PublishParts(t.Context()); err != nil {
		t.Fatal(err)
	}
	now, err := (lease.Links{Dir: h.Path("dev/dcm")}).Read()
	if diff := cmp.Diff(map[string][]string{"llm": {"/dev/nvidia-caps/nvidia-cap30"}}, now); diff != "" || err != nil {
		t.Errorf("links, %v, (-want +got):\n%s", err, diff)
	}
}

// Only dcm's specification has names of reservations.
func TestContainers_AllPartitions(t *testing.T) {
	p := runstate.Partitions{Parts: []runstate.Part{
		{Name: "0000:05:00.0-0", Render: "/dev/dri/renderD128"},
		{Name: "0000:1b:00.0-4", Render: "/dev/nvidia-caps/nvidia-cap12", Companions: []string{"/dev/nvidiactl", "/dev/nvidia0"}},
	}}
	got := make(map[string][]string)
	for _, d := range containers(p, map[string][]string{"llm": {"/dev/nvidia-caps/nvidia-cap12"}}) {
		got[d.Name] = d.Nodes
	}
	mig, amd := []string{"/dev/nvidiactl", "/dev/nvidia0", "/dev/nvidia-caps/nvidia-cap12"}, []string{"/dev/kfd", "/dev/dri/renderD128"}
	want := map[string][]string{
		"0000:05:00.0-0": amd, "0000:1b:00.0-4": mig, "reservation-llm": mig,
		"all": {"/dev/kfd", "/dev/nvidiactl", "/dev/nvidia0", "/dev/dri/renderD128", "/dev/nvidia-caps/nvidia-cap12"},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("devices (-want +got):\n%s", diff)
	}
}

// A unit whose reservation is removed, and not only renamed, has no partitions in its next runs.
func TestLogRemoved(t *testing.T) {
	var text bytes.Buffer
	before := []runstate.Reservation{{Name: "a", Unit: "a.service"}, {Name: "b", Unit: "b.service"}, {Name: "c", Unit: "c.service"}, {Name: "d", Unit: "d.service", Make: "1g.10gb"}}
	now := []runstate.Reservation{{Name: "a", Unit: "a.service"}, {Name: "new", Unit: "b.service"}}
	logRemoved(slog.New(slog.NewTextHandler(&text, nil)), before, now)
	if got := text.String(); strings.Count(got, "\n") != 1 || !strings.Contains(got, "unit=c.service partitions=[]") {
		t.Errorf("got %s", got)
	}
}
