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

// dcm describes the partitions to container engines unless the vendor's service does.
func TestWithoutVendorCDI(t *testing.T) {
	const refresh = "systemd/system/nvidia-cdi-refresh.service"
	list := runstate.Partitions{Parts: []runstate.Part{{Render: "/dev/dri/renderD128"}, {Render: "/dev/nvidia-caps/nvidia-cap12", Companions: []string{"/dev/nvidiactl"}}}}
	for name, c := range map[string]struct {
		files map[string]string // where links lead, "" for a file
		parts int
	}{
		"it is not there":    {nil, 2},
		"it is installed":    {map[string]string{"usr/lib/" + refresh: ""}, 1},
		"an administrator's": {map[string]string{"etc/" + refresh: ""}, 1},
		"it is masked":       {map[string]string{"usr/lib/" + refresh: "", "etc/" + refresh: "/dev/null"}, 2},
	} {
		t.Run(name, func(t *testing.T) {
			root := t.TempDir()
			for file, to := range c.files {
				path := filepath.Join(root, file)
				err := os.MkdirAll(filepath.Dir(path), 0o755)
				if err == nil && to != "" {
					err = os.Symlink(to, path)
				} else if err == nil {
					err = os.WriteFile(path, nil, 0o644)
				}
				if err != nil {
					t.Fatal(err)
				}
			}
			if got := (Publisher{Host: &host.Host{Root: root}}).withoutVendorCDI(list).Parts; len(got) != c.parts {
				t.Errorf("partitions for container engines: got %+v", got)
			}
		})
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
