package exclusive

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/sys/unix"

	"dcm/internal/engine/runstate"
	"dcm/internal/linux/systemd"
)

// groups are the paths of cgroups, by unit.
type groups map[string]string

func (g groups) ControlGroup(_ context.Context, unit string) (string, error) {
	if unit == "lost.service" {
		return "", errors.New("PID 1 does not answer")
	}
	return g[unit], nil
}

func parts() runstate.Partitions {
	return runstate.Partitions{
		Parts: []runstate.Part{
			{Name: "a-0", Render: "/dev/dri/renderD128", Card: "/dev/dri/card0"},
			{Name: "a-1", Render: "/dev/dri/renderD129"},
			{Name: "a-2", Render: "/dev/dri/renderD130"},
			{Name: "a-3", Render: "/dev/dri/renderD131"},
			{Name: "a-4", Render: "/dev/dri/renderD132"}, // its node does not exist
		},
		Reservations: []runstate.Reservation{
			{Name: "vllm-a", Unit: "vllm.service", Partitions: []string{"a-0"}, Exclusive: true},
			{Name: "notebook", Unit: "notebook@.service", Share: 2, Partitions: []string{"a-1", "a-4"}, Exclusive: true},
			{Name: "slurm", Partitions: []string{"a-2"}, Exclusive: true},
			{Name: "open", Unit: "open.service", Partitions: []string{"a-3"}},
		},
	}
}

// host returns a host with device nodes, these cgroups, and these unit files.
func host(t *testing.T, cgroups []string, files map[string]string) Host {
	t.Helper()
	root := t.TempDir()
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	must(os.MkdirAll(filepath.Join(root, "dev/dri"), 0o755))
	for i, name := range []string{"card0", "renderD128", "renderD129", "renderD130", "renderD131"} {
		if err := unix.Mknod(filepath.Join(root, "dev/dri", name), unix.S_IFCHR|0o600, int(unix.Mkdev(226, uint32(127+i)))); err != nil {
			t.Skipf("device nodes cannot be made: %v", err)
		}
	}
	for _, path := range cgroups {
		must(os.MkdirAll(filepath.Join(root, "sys/fs/cgroup", path), 0o755))
	}
	for path, text := range files {
		must(os.MkdirAll(filepath.Dir(filepath.Join(root, path)), 0o755))
		must(os.WriteFile(filepath.Join(root, path), []byte(text), 0o644))
	}
	return Host{Root: root}
}

// shown returns a text such as "226:128 vllm-a /dcm.slice/dcm-vllm:a.slice" for each entry of the
// table. It checks the IDs of the cgroups.
func shown(t *testing.T, h Host, table runstate.GuardTable) []string {
	t.Helper()
	paths := func(list []runstate.Cgroup) string {
		out := ""
		for _, c := range list {
			var st unix.Stat_t
			if err := unix.Stat(filepath.Join(h.Root, "sys/fs/cgroup", c.Path), &st); err != nil || st.Ino != c.Number {
				t.Errorf("ID of cgroup %s: got %d, want %d, %v", c.Path, c.Number, st.Ino, err)
			}
			out += " " + c.Path
		}
		return out
	}
	var out []string
	for _, g := range table.Table {
		out = append(out, g.Device+" "+g.Holder+paths(g.Cgroups))
	}
	return append(out, "all"+paths(table.All))
}

func TestWanted_HolderCgroups(t *testing.T) {
	const lease = "dcm-exclusive-1000-00c0ffee.scope"
	h := host(t, []string{
		"dcm.slice/dcm-vllm:a.slice", "dcm.slice/notebook@1.service", "dcm.slice/dcm-ml.slice/dcm-ml-x.slice", "dcm.slice/" + lease,
		"dcm.slice/old-exporter.service", "system.slice/system-dcm.slice", "system.slice/notebook@2.service", "dcm.slice/dcm-look.slice",
	}, map[string]string{
		"etc/systemd/system/notebook@.service":                "[Service]\nSlice=dcm-ml-x.slice\n",
		"etc/systemd/system/own-exporter.service":             "[Service]\nSlice=dcm-look.slice\n",
		"run/systemd/generator/vllm.service.d/50-dcm.conf":    "[Service]\nSlice=dcm-vllm:a.slice\n",
		"etc/systemd/system/top-exporter.service.d/10-x.conf": "[Service]\nSlice=dcm.slice\n",
	})
	h.Observers = []string{"exporter.service", "old-exporter.service", "own-exporter.service", "top-exporter.service", "many@.service"}
	tenants := []systemd.Tenant{
		{Unit: "vllm.service", Active: "active", Allow: []string{"/dev/dcm/vllm-a/render0"}},
		{Unit: "notebook@1.service", Active: "active"}, // started by an older dcm
		{Unit: "notebook@2.service", Active: "active"}, // not below dcm.slice
		{Unit: lease, Active: "active", Allow: []string{"/dev/kfd", "/dev/dri/renderD131"}},
		{Unit: "dcm-lease-1000-00c0fff0.scope", Active: "active", Allow: []string{"/dev/dri/renderD131"}},
	}
	g := groups{
		"vllm.service": "/dcm.slice/dcm-vllm:a.slice/vllm.service", "notebook@1.service": "/dcm.slice/notebook@1.service",
		"notebook@2.service": "/system.slice/notebook@2.service", lease: "/dcm.slice/" + lease,
		"exporter.service": "/system.slice/system-dcm.slice/exporter.service", "old-exporter.service": "/dcm.slice/old-exporter.service",
		"own-exporter.service": "/dcm.slice/dcm-look.slice/own-exporter.service",
	}
	got, err := h.Wanted(t.Context(), g, parts(), tenants)
	if err != nil {
		t.Fatal(err)
	}
	want := []string{
		"226:127 vllm-a /dcm.slice/dcm-vllm:a.slice",
		"226:128 vllm-a /dcm.slice/dcm-vllm:a.slice",
		"226:129 notebook /dcm.slice/dcm-ml.slice/dcm-ml-x.slice /dcm.slice/notebook@1.service",
		"226:130 slurm", // its slice is not active, so no process may open it
		"226:131 " + lease + " /dcm.slice/" + lease,
		"all /system.slice/system-dcm.slice /dcm.slice/old-exporter.service /dcm.slice/dcm-look.slice",
	}
	if diff := cmp.Diff(want, shown(t, h, got)); diff != "" {
		t.Errorf("table (-want +got):\n%s", diff)
	}
	again, err := h.Wanted(t.Context(), g, parts(), tenants)
	if err != nil || !Same(got, again) {
		t.Errorf("the table differs when computed again: %v, %v", again, err)
	}
	if got.Holds("slurm") || !got.Holds(lease) || !got.Holds("vllm-a") || got.Holds("open") {
		t.Errorf("holders: got %v", got.Holders())
	}
}

func TestWanted_EmptyWithoutExclusive(t *testing.T) {
	h := host(t, nil, nil)
	h.Observers = []string{"lost.service"}
	p := parts()
	p.Reservations = p.Reservations[3:]
	got, err := h.Wanted(t.Context(), groups{}, p, nil)
	if err != nil || len(got.Table)+len(got.All) != 0 {
		t.Errorf("%+v, %v", got, err)
	}
}

func TestWanted_FailsWithoutPID1(t *testing.T) {
	h := host(t, nil, nil)
	h.Observers = []string{"lost.service"}
	if _, err := h.Wanted(t.Context(), groups{}, parts(), nil); err == nil {
		t.Error("no error although PID 1 does not answer")
	}
}

func TestIntruders(t *testing.T) {
	table := runstate.GuardTable{
		Table: []runstate.Guarded{
			{Node: "/dev/dri/renderD128", Partition: "a-0", Holder: "vllm", Cgroups: []runstate.Cgroup{{Path: "/dcm.slice/dcm-vllm.slice", Number: 7}}},
			{Node: "/dev/dri/card0", Partition: "a-0", Holder: "vllm", Cgroups: []runstate.Cgroup{{Path: "/dcm.slice/dcm-vllm.slice", Number: 7}}},
			{Node: "/dev/dri/renderD129", Partition: "a-1", Holder: "slurm"},
		},
		All: []runstate.Cgroup{{Path: "/system.slice/system-dcm.slice", Number: 8}},
	}
	cgroups := map[int]string{
		1: "/dcm.slice/dcm-vllm.slice/vllm.service", 2: "/system.slice/system-dcm.slice/exporter.service", 3: "/user.slice/session-1.scope",
		4: "/dcm.slice/dcm-vllm.slices/x.service", 5: "/user.slice",
	}
	holders := []runstate.Holder{
		{PID: 1, Command: "python3", Unit: "vllm.service", Devices: []string{"/dev/kfd", "/dev/dri/renderD128"}},
		{PID: 2, Command: "exporter", Unit: "exporter.service", Devices: []string{"/dev/dri/renderD128", "/dev/dri/renderD129"}},
		{PID: 3, Command: "grab", Devices: []string{"/dev/dri/renderD128", "/dev/dri/card0", "/dev/dri/renderD129"}},
		{PID: 4, Command: "x", Unit: "x.service", Devices: []string{"/dev/dri/card0"}},
		{PID: 5, Command: "y", Devices: []string{"/dev/dri/renderD140", "/dev/kfd"}},
		{PID: 6, Command: "ended", Devices: []string{"/dev/dri/renderD128"}},
	}
	got := Intruders(table, holders, func(pid int) (string, error) {
		if path, ok := cgroups[pid]; ok {
			return path, nil
		}
		return "", os.ErrNotExist
	})
	want := "grab[3] has a-0 open|grab[3] has a-1 open|x[4] of x.service has a-0 open"
	if text := strings.Join(got, "|"); text != want {
		t.Errorf("intruders: got %s, want %s", text, want)
	}
}

func TestSlicePath(t *testing.T) {
	for slice, want := range map[string]string{
		"dcm.slice": "/dcm.slice", "dcm-a.slice": "/dcm.slice/dcm-a.slice", "dcm-a:b.slice": "/dcm.slice/dcm-a:b.slice",
		"dcm-a-b.slice": "/dcm.slice/dcm-a.slice/dcm-a-b.slice", "system-dcm.slice": "/system.slice/system-dcm.slice",
	} {
		if got := SlicePath(slice); got != want {
			t.Errorf("path of %s: got %s, want %s", slice, got, want)
		}
	}
}
