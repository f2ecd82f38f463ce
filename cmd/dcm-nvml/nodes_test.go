package main

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/sys/unix"

	"dcm/internal/gpu/nvml"
	"dcm/internal/gpu/nvml/standin"
	"dcm/internal/gpu/partition"
)

// The device major numbers of the simulated driver.
const (
	gpuMajor        = 195
	capsMajor       = 509
	formerCapsMajor = 508
)

// prepared is a machine whose library treats device nodes like the real one, and whose
// driver shows its capabilities. It has no node.
func prepared(t *testing.T) machine {
	t.Helper()
	needsRoot(t)
	m := node(t, "A100-40GB")
	if err := errors.Join(os.RemoveAll(m.dev), os.MkdirAll(filepath.Join(m.dev, "char"), 0o755), showCapabilities(m.proc)); err != nil {
		t.Fatal(err)
	}
	m.update(func(s *standin.State) {
		s.Privileged, s.Knobs = true, []string{fmt.Sprintf("nodes %s %d", m.dev, capsMajor)}
	})
	return m
}

// showCapabilities writes what the driver shows of its capabilities below /proc.
func showCapabilities(proc string) error {
	mig := filepath.Join(proc, "driver/nvidia/capabilities/mig")
	return errors.Join(
		os.MkdirAll(mig, 0o755),
		os.WriteFile(filepath.Join(proc, "devices"), fmt.Appendf(nil, "Character devices:\n  1 mem\n%d nvidia\n%d nvidia-caps\n", gpuMajor, capsMajor), 0o644),
		os.WriteFile(filepath.Join(mig, "config"), []byte("DeviceFileMinor: 1\nDeviceFileMode: 256\nDeviceFileModify: 1\n"), 0o644),
		os.WriteFile(filepath.Join(mig, "monitor"), []byte("DeviceFileMinor: 2\nDeviceFileMode: 292\nDeviceFileModify: 1\n"), 0o644),
	)
}

// makeNode makes a node like "nvidiactl", or "nvidia-caps/nvidia-cap1" of a load of the
// driver with that major number.
func makeNode(dev, name string, mode, major, minor uint32) error {
	at := filepath.Join(dev, name)
	return errors.Join(os.MkdirAll(filepath.Dir(at), 0o755), unix.Mknod(at, unix.S_IFCHR|mode, int(unix.Mkdev(major, minor))), os.Chmod(at, os.FileMode(mode)))
}

// nodes describes what is below a directory, by name: "660 0:44 195:255", or where a link
// leads.
func nodes(t *testing.T, dev string) map[string]string {
	t.Helper()
	out := make(map[string]string)
	err := filepath.WalkDir(dev, func(path string, d fs.DirEntry, err error) error {
		var st unix.Stat_t
		if err == nil {
			err = unix.Lstat(path, &st)
		}
		name, _ := filepath.Rel(dev, path)
		if link, bad := os.Readlink(path); bad == nil {
			out[name] = link
		} else if name != "." && name != "char" {
			out[name] = fmt.Sprintf("%o %d:%d %d:%d", st.Mode&^uint32(unix.S_IFMT), st.Uid, st.Gid, unix.Major(st.Rdev), unix.Minor(st.Rdev))
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// situation is a set of nodes below /dev before a request.
type situation struct {
	name string
	make func(dev string) error
}

// situations returns the possible sets of nodes. The last two are stale capability nodes, after the
// driver was loaded again with another major number, and a complete set.
func situations() []situation {
	gpus := func(dev string, mode uint32) error {
		return errors.Join(makeNode(dev, "nvidiactl", mode, gpuMajor, 255), makeNode(dev, "nvidia0", mode, gpuMajor, 0), makeNode(dev, "nvidia1", mode, gpuMajor, 1))
	}
	caps := func(dev string, major uint32) error {
		return errors.Join(makeNode(dev, "nvidia-caps/nvidia-cap1", 0o400, major, 1), makeNode(dev, "nvidia-caps/nvidia-cap2", 0o444, major, 2))
	}
	return []situation{
		{"no node", func(string) error { return nil }},
		{"no node of a capability", func(dev string) error { return gpus(dev, 0o660) }},
		{"another mode", func(dev string) error { return errors.Join(gpus(dev, 0o666), caps(dev, capsMajor)) }},
		{"stale capabilities", func(dev string) error { return errors.Join(gpus(dev, 0o666), caps(dev, formerCapsMajor)) }},
		{"all nodes", func(dev string) error { return errors.Join(gpus(dev, 0o660), caps(dev, capsMajor)) }},
	}
}

// Reading a GPU creates, changes and removes no node, although the library tries to.
func TestRead_ChangesNoNode(t *testing.T) {
	for _, s := range situations() {
		t.Run(s.name, func(t *testing.T) {
			m := prepared(t)
			m.turn("params 0 44 0660 1")
			if err := s.make(m.dev); err != nil {
				t.Fatal(err)
			}
			before := nodes(t, m.dev)
			reply := m.look(first)
			if diff := cmp.Diff(before, nodes(t, m.dev)); diff != "" {
				t.Errorf("nodes (-before +after):\n%s", diff)
			}
			if s.name == "no node" {
				m.wantError(reply, nvml.NoNodes, "there is no "+m.dev+"/nvidiactl: nvmlInit_v2: the driver is not loaded (9)")
				return
			}
			m.want(reply, "off")
		})
	}
}

// After a change, the nodes have the modes and owners that the driver's parameters require. The
// same holds after a run's read if a node was missing.
func TestChange_NodesAsRequired(t *testing.T) {
	want := map[string]string{
		"nvidiactl": "660 0:44 195:255", "nvidia0": "660 0:44 195:0",
		"nvidia-caps": "755 0:0 0:0", "nvidia-caps/nvidia-cap1": "400 0:0 509:1", "nvidia-caps/nvidia-cap2": "444 0:0 509:2",
		"char/195:255": "../nvidiactl", "char/195:0": "../nvidia0", "char/509:1": "../nvidia-caps/nvidia-cap1", "char/509:2": "../nvidia-caps/nvidia-cap2",
	}
	on := true
	change := nvml.Request{Do: nvml.Mode, GPU: first, On: &on}
	look := nvml.Request{Do: nvml.Look, GPUs: []partition.Address{first}, Nodes: true}
	for _, s := range situations() {
		for name, request := range map[string]nvml.Request{"change": change, "run's look": look} {
			if name != "change" && (s.name == "another mode" || s.name == "all nodes") {
				continue // nothing is missing
			}
			t.Run(s.name+", "+name, func(t *testing.T) {
				m := prepared(t)
				m.turn("params 0 44 0660 1")
				err := s.make(m.dev)
				if err == nil && s.name == "all nodes" {
					err = errors.Join(os.Chown(filepath.Join(m.dev, "nvidiactl"), 0, 44), os.Chown(filepath.Join(m.dev, "nvidia0"), 0, 44))
				}
				if err != nil {
					t.Fatal(err)
				}
				if reply := m.ask(request); reply.Error != nil {
					t.Errorf("%s: %s", reply.Error.Kind, reply.Error.Text)
				}
				got := nodes(t, m.dev)
				delete(got, "nvidia1") // belongs to a GPU that is not in the request
				if diff := cmp.Diff(want, got); diff != "" {
					t.Errorf("nodes (-want +got):\n%s", diff)
				}
			})
		}
	}
}

// With ModifyDeviceFiles = 0 the library does not change the modes and owners of existing nodes:
// the administrator sets them.
func TestUnmodifiedNodesStay(t *testing.T) {
	m := prepared(t)
	m.turn("params 0 44 0660 0")
	if err := errors.Join(makeNode(m.dev, "nvidiactl", 0o666, gpuMajor, 255), makeNode(m.dev, "nvidia0", 0o666, gpuMajor, 0), makeNode(m.dev, "nvidia1", 0o666, gpuMajor, 1)); err != nil {
		t.Fatal(err)
	}
	m.want(m.mode(true), "on")
	got := nodes(t, m.dev)
	if got["nvidiactl"] != "666 0:0 195:255" || got["nvidia0"] != "666 0:0 195:0" {
		t.Errorf("nodes %v", got)
	}
}

// Without CAP_DAC_OVERRIDE root cannot open a node that the driver's parameters give to
// another user alone.
func TestChange_NodeOfAnotherUser(t *testing.T) {
	m := prepared(t)
	m.turn("params 1000 1000 0600 1")
	m.wantError(m.mode(true), nvml.NoPermission, "nvmlInit_v2: no permission (4); no permission to open "+m.dev+"/nvidiactl")
	if got := nodes(t, m.dev)["nvidiactl"]; got != "600 1000:1000 195:255" {
		t.Errorf("the node is %s", got)
	}
	m.wantError(m.look(first), nvml.NoPermission, "no permission to open "+m.dev+"/nvidiactl")
}

// The library makes the nodes of new instances, with the rights that a change keeps.
func TestChange_CreatesInstanceNodes(t *testing.T) {
	m := prepared(t)
	m.mode(true)
	reply := m.fill("3g.20gb@4=1c.3g.20gb,1c.3g.20gb")
	m.want(reply, "on 3g.20gb@4=1c.3g.20gb,1c.3g.20gb")
	instance := 3 + 9*reply.GPUs[0].Instances[0].ID // as the driver numbers them, on the first GPU
	got := nodes(t, m.dev)
	for n := range 3 {
		if name := fmt.Sprintf("nvidia-caps/nvidia-cap%d", instance+n); got[name] != fmt.Sprintf("666 0:0 %d:%d", capsMajor, instance+n) {
			t.Errorf("%s: %q", name, got[name])
		}
	}
}

// Without the node of mig/config the driver lists no instances for a process without
// CAP_SYS_ADMIN. A look names the missing node; a run's look makes it.
func TestChange_MissingCapabilityNode(t *testing.T) {
	for _, s := range situations()[1:4] {
		if s.name == "another mode" {
			continue
		}
		t.Run(s.name, func(t *testing.T) {
			m := prepared(t)
			m.mode(true)
			m.fill("3g.20gb@4")
			if err := errors.Join(os.RemoveAll(m.dev), os.Mkdir(m.dev, 0o755), s.make(m.dev)); err != nil {
				t.Fatal(err)
			}
			g := m.look(first).GPUs[0]
			if g.Error == nil || g.Error.Kind != nvml.NoNodes || g.Error.Text != "there is no "+m.dev+"/nvidia-caps/nvidia-cap1: nvmlDeviceGetGpuInstances: no permission (4)" {
				t.Errorf("%+v", g.Error)
			}
			m.want(m.ask(nvml.Request{Do: nvml.Look, GPUs: []partition.Address{first}, Nodes: true}), "on 3g.20gb@4")
			m.want(m.look(first), "on 3g.20gb@4")
		})
	}
}
