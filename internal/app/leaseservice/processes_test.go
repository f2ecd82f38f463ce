package leaseservice

import (
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"dcm/internal/engine/host"
	"dcm/internal/engine/runstate"
	"dcm/internal/gpu"
)

func TestBitmap(t *testing.T) {
	for list, want := range map[string][]byte{
		"": nil, "0": {1}, "0-3,8": {0x0f, 1}, "15": {0, 0x80}, "3-1": nil, "a": nil, "0-99999999": nil,
	} {
		if got := bitmap(list); !slices.Equal(got, want) {
			t.Errorf("%q is %x, want %x", list, got, want)
		}
	}
}

// The kernel does not move a process that is about to exit, and reports no error.
func TestInside(t *testing.T) {
	const scope = "dcm-lease-0-4f1c09aa.scope"
	for cgroup, in := range map[string]bool{"/dcm.slice/" + scope: true, "/user.slice/session-1.scope": false, "/": false, "": false} {
		root := t.TempDir()
		p := processes{&host.Host{Root: root}}
		if err := os.MkdirAll(filepath.Join(root, "proc/7"), 0o755); err != nil {
			t.Fatal(err)
		}
		text := "0::" + cgroup + "\n"
		if cgroup == "" {
			text = ""
		}
		if err := os.WriteFile(filepath.Join(root, "proc/7/cgroup"), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
		if err := p.inside(7, scope); (err == nil) != in {
			t.Errorf("in %q: %v", cgroup, err)
		}
	}
	if err := (processes{&host.Host{Root: t.TempDir()}}).inside(7, scope); err == nil {
		t.Error("a process that is gone is in its scope")
	}
}

// putEvents writes cgroup.events of units in dcm.slice.
func putEvents(t *testing.T, p processes, units map[string]string) {
	t.Helper()
	for unit, events := range units {
		if err := os.MkdirAll(p.unitDir(unit), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(p.unitDir(unit), "cgroup.events"), []byte(events), 0o644); err != nil {
			t.Fatal(err)
		}
	}
}

func TestUnpopulated(t *testing.T) {
	p := processes{&host.Host{Root: t.TempDir()}}
	putEvents(t, p, map[string]string{"a.scope": "populated 0\nfrozen 0\n", "b.scope": "populated 1\nfrozen 0\n", "c.scope": ""})
	// Where there is none of a lease's, systemd is not asked: there is none here.
	EndEmptyScopes(t.Context(), p.host, slog.New(slog.DiscardHandler))
	for unit, want := range map[string]bool{"a.scope": true, "b.scope": false, "c.scope": false, "d.scope": false} {
		if got := p.unpopulated(unit); got != want {
			t.Errorf("unpopulated(%s): got %t", unit, got)
		}
	}
}

// A cgroup can be removed between two system calls: the directory is found, and its files are not.
func TestEmpty(t *testing.T) {
	p := processes{&host.Host{Root: t.TempDir()}}
	putEvents(t, p, map[string]string{"empty.scope": "populated 0\nfrozen 0\n", "used.scope": "populated 1\nfrozen 0\n"})
	if err := os.Mkdir(p.unitDir("removed.scope"), 0o755); err != nil {
		t.Fatal(err)
	}
	for unit, want := range map[string]bool{"empty.scope": true, "used.scope": false, "removed.scope": true, "absent.scope": true} {
		if got := p.Empty(unit); got != want {
			t.Errorf("Empty(%s): got %t, want %t", unit, got, want)
		}
	}
}

func TestEmptyScopes(t *testing.T) {
	p := processes{&host.Host{Root: t.TempDir()}}
	if got := p.emptyScopes(); got != nil {
		t.Errorf("without the slice there are %q", got)
	}
	const lease, waiting = "dcm-lease-1000-4f1c09aa.scope", "dcm-wait-1000-4f1c09aa.scope"
	putEvents(t, p, map[string]string{
		lease: "populated 0\n", waiting: "populated 0\n", "dcm-wait-1000-00000000.scope": "populated 1\n", "dcm-exclusive-0-00000000.scope": "populated 1\n",
		"vllm.service": "populated 0\n", "dcm-vllm.slice": "populated 0\n",
	})
	if got, want := p.emptyScopes(), []string{lease, waiting}; !slices.Equal(got, want) {
		t.Errorf("abandoned are %q, want %q", got, want)
	}
}

func TestUnexpectedUsers(t *testing.T) {
	part := runstate.Part{Render: "/dev/dri/renderD129", Card: "/dev/dri/card1"}
	open := []string{"/dev/kfd", part.Render}
	got := unexpectedUsers(part, []gpu.Holder{
		{PID: 1, Unit: "vllm.service", Devices: open},
		{PID: 2, Unit: "vllm.service", Devices: open},
		{PID: 3, Unit: "exporter.service", Devices: open},
		{PID: 4, Unit: "session-3.scope", Command: "python", Devices: []string{part.Card}},
		{PID: 5, Unit: "other.service", Devices: []string{"/dev/kfd", "/dev/dri/renderD130"}},
		{PID: 6, Unit: "dcm-lease-1000-4f1c09aa.scope", Devices: open},
	}, []string{"exporter.service"})
	if want := []string{"vllm.service", "python[4]", "dcm-lease-1000-4f1c09aa.scope"}; !slices.Equal(got, want) {
		t.Errorf("it is open by %q, want %q", got, want)
	}
}
