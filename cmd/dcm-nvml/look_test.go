package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"dcm/internal/gpu/nvml"
	"dcm/internal/gpu/nvml/standin"
	"dcm/internal/gpu/partition"
)

func (m machine) look(gpus ...partition.Address) nvml.Reply {
	m.t.Helper()
	return m.ask(nvml.Request{Do: nvml.Look, GPUs: gpus})
}

// The library reports the same profiles as the planner's table, for each board.
func TestRead_KnownProfilesOfEachBoard(t *testing.T) {
	m := node(t, "A30")
	for _, b := range partition.Boards() {
		t.Run(b.Name, func(t *testing.T) {
			s, err := standin.New("580.82.07", b.Name, first)
			if err == nil {
				err = standin.Write(m.state, s)
			}
			if err != nil {
				t.Fatal(err)
			}
			for _, knobs := range [][]string{nil, {"no-third-version"}, {"names-with-mig"}} {
				m.update(func(s *standin.State) { s.Knobs = knobs })
				reply := m.ask(nvml.Request{Do: nvml.Look, GPUs: []partition.Address{first}})
				if reply.Error != nil || reply.GPUs[0].Error != nil || reply.GPUs[0].Notes != nil {
					t.Fatalf("%+v", reply)
				}
				want := make(map[string]partition.InstanceProfile)
				for _, p := range b.Profiles {
					want[p.Name] = p
				}
				got := make(map[string]partition.InstanceProfile)
				for _, p := range reply.GPUs[0].Offers() {
					got[p.Name] = p
				}
				if diff := cmp.Diff(want, got); diff != "" {
					t.Errorf("knobs %q (-want +got):\n%s", knobs, diff)
				}
			}
		})
	}
}

func TestRead_AllFields(t *testing.T) {
	m := node(t, "H100-80GB")
	m.mode(true)
	m.fill("3g.40gb@4=1c.3g.40gb,2c.3g.40gb", "4g.40gb@0")
	m.update(func(s *standin.State) {
		s.Knobs = append(s.Knobs, "mig-utilization")
		s.GPUs[0].Processes = []standin.Process{{PID: 4711, Memory: 5 << 20, GI: 1, CI: 1}, {PID: 4712, Memory: 1, GI: 0xFFFFFFFF, CI: 0xFFFFFFFF, Graphics: true}}
	})
	reply := m.ask(nvml.Request{Do: nvml.Look, GPUs: []partition.Address{second, first}, Usage: true})
	if reply.Error != nil || reply.Driver != "580.82.07" || reply.NVML != "13.580.82.07" || reply.Library != m.lib || len(reply.GPUs) != 2 {
		t.Fatalf("%+v", reply)
	}
	if g := reply.GPUs[0]; g.Address != second || g.MIG == nil || g.MIG.Current || len(g.Instances) > 0 || g.Usage == nil {
		t.Errorf("reply for the other GPU: %+v", g)
	}
	g := reply.GPUs[1]
	minor, percent, yes := 0, 97, true
	want := nvml.GPU{
		Address: first, UUID: "GPU-6c2b7e1f-0000-4000-8000-00000000d000", Name: "NVIDIA H100-80GB", Serial: "1650000000000", Memory: 80 << 30, Minor: &minor, Device: 0x233010de, Subsystem: 0x14f010de,
		Virtualization: nvml.Bare, MIG: &nvml.MIGMode{Current: true, Pending: true}, Resetless: &yes,
		Instances: []nvml.Instance{
			{ID: 2, Profile: "4g.40gb", ProfID: 5, Place: nvml.Placement{Start: 0, Size: 4}, Compute: []nvml.ComputeInstance{{Profile: "4g.40gb", ProfID: 3, Slices: 4, Place: nvml.Placement{Size: 4}}}},
			{ID: 1, Profile: "3g.40gb", ProfID: 9, Place: nvml.Placement{Start: 4, Size: 4}, Compute: []nvml.ComputeInstance{
				{Profile: "1c.3g.40gb", Slices: 1, Place: nvml.Placement{Size: 1}}, {ID: 1, Profile: "2c.3g.40gb", ProfID: 1, Slices: 2, Place: nvml.Placement{Start: 1, Size: 2}}}},
		},
		Processes: []nvml.Process{{PID: 4711, Memory: 5 << 20, GPUInstance: 1, ComputeInstance: 1}, {PID: 4712, Memory: 1, Graphics: true, GPUInstance: -1, ComputeInstance: -1}},
		Usage:     &nvml.Usage{MemoryUsed: 5<<20 + 1, MemoryTotal: 80 << 30, Utilization: &percent},
	}
	profiles, devices := g.Profiles, g.Devices
	g.Profiles, g.Devices = nil, nil
	if g.Usage == nil || g.Usage.Energy == 0 {
		t.Fatalf("usage of the GPU: want its energy, got %+v", g.Usage)
	}
	g.Usage.Energy = 0
	if diff := cmp.Diff(want, g); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if len(profiles) != 7 || profiles[0].Name != "1g.10gb" || profiles[0].Slices != 1 || profiles[0].MemoryMB != 9984 || profiles[0].Computed {
		t.Errorf("profiles %+v", profiles)
	}
	uuids := make(map[string]bool)
	for _, d := range devices {
		uuids[d.UUID] = strings.HasPrefix(d.UUID, "MIG-") && d.Usage != nil && d.Usage.Energy == 0 && (d.Usage.MemoryUsed > 0) == (d.GPUInstance == 1 && d.ComputeInstance == 1)
	}
	if len(devices) != 3 || len(uuids) != 3 {
		t.Errorf("devices %+v", devices)
	}
	for uuid, good := range uuids {
		if !good {
			t.Errorf("%s: %+v", uuid, devices)
		}
	}
}

func TestRead_NoDriverNoCalls(t *testing.T) {
	m := node(t, "A30")
	log := filepath.Join(t.TempDir(), "log")
	m.turn("log " + log)
	if err := os.RemoveAll(filepath.Join(m.sys, "module")); err != nil {
		t.Fatal(err)
	}
	m.wantError(m.look(first), nvml.NoDriver, "the nvidia driver is not loaded")
	m.wantError(m.mode(true), nvml.NoDriver, "not loaded")
	if text, err := os.ReadFile(log); err == nil {
		t.Errorf("calls of the library without a driver: want none, got\n%s", text)
	}
	if err := os.MkdirAll(filepath.Join(m.sys, "module/nvidia"), 0o755); err != nil {
		t.Fatal(err)
	}
	m.update(func(s *standin.State) { s.Unload() })
	m.wantError(m.look(first), nvml.NoDriver, "nvmlInit_v2: the driver is not loaded (9)")
}

func TestRead_OldDrivers(t *testing.T) {
	m := node(t, "H100-80GB")
	for _, c := range []struct {
		knobs            []string
		profiles, places int // with MIG off
	}{
		{[]string{"profiles-with-mig"}, 0, 0},
		{[]string{"places-with-mig"}, 7, 0},
		{[]string{"names-with-mig", "places-with-mig"}, 7, 0},
	} {
		m.update(func(s *standin.State) { s.Knobs = c.knobs })
		g := m.look(first).GPUs[0]
		if len(g.Profiles) != c.profiles || len(g.Offers()) != c.places || g.Error != nil || g.Notes != nil {
			t.Errorf("%q: %+v", c.knobs, g)
		}
		if g := m.mode(true).GPUs[0]; len(g.Offers()) != 7 {
			t.Errorf("%q, and MIG on: %+v", c.knobs, g)
		}
		m.mode(false)
	}
}

func TestRead_UnreadableGPU(t *testing.T) {
	m := node(t, "A100-40GB")
	for _, c := range []struct {
		name   string
		change func(*standin.State)
		gpu    partition.Address
		kind   nvml.Kind
		text   string
	}{
		{"lost", func(s *standin.State) { s.GPUs[0].Lost = true }, first, nvml.Lost, "does not respond on the bus"},
		{"not there", func(*standin.State) {}, "0000:99:00.0", nvml.NoSuchGPU, "knows no GPU at 0000:99:00.0"},
		{"no permission", func(s *standin.State) { s.Knobs = []string{"fail nvmlDeviceGetMigMode 4 0 0 " + string(first)} }, first, nvml.NoPermission, "nvmlDeviceGetMigMode"},
		{"an invalid MIG mode", func(s *standin.State) { s.Knobs = []string{"garbage-mode"} }, first, nvml.Garbage, "modes 5 and 0"},
		{"another GPU", func(s *standin.State) { s.Knobs = []string{"other-gpu"} }, first, nvml.Garbage, "found 0000:42:00.0, want 0000:41:00.0"},
		{"no handle", func(s *standin.State) { s.Knobs = []string{"null-handles"} }, first, nvml.Garbage, "returned no handle"},
	} {
		t.Run(c.name, func(t *testing.T) {
			m.update(func(s *standin.State) { s.Knobs, s.GPUs[0].Lost = nil, false; c.change(s) })
			reply := m.look(second, c.gpu)
			g := reply.GPUs[1]
			if reply.Error != nil || g.Error == nil || g.Error.Kind != c.kind || !strings.Contains(g.Error.Text, c.text) {
				t.Errorf("%+v, %+v", reply.Error, g.Error)
			}
			if everywhere := strings.HasPrefix(c.name, "a") || c.name == "no handle"; (reply.GPUs[0].Error != nil) != everywhere {
				t.Errorf("error of the other GPU: %+v", reply.GPUs[0].Error)
			}
		})
	}
}

func TestRead_GPUWithoutMIG(t *testing.T) {
	m := node(t, "A100-40GB")
	m.update(func(s *standin.State) { s.GPUs[0].MIG = false })
	if g := m.look(first).GPUs[0]; g.MIG != nil || g.Error != nil || g.Profiles != nil || g.Name == "" {
		t.Errorf("%+v", g)
	}
	m.wantError(m.mode(true), nvml.NotSupported, "has no MIG")
}

func TestRead_InvalidValues(t *testing.T) {
	m := node(t, "A100-40GB")
	for _, c := range []struct{ knob, note string }{
		{"garbage-text", "returned no text"},
		{"garbage-count", "at most 1073741824 instances"},
		{"garbage-placement", "returned invalid placements"},
		{"fail nvmlDeviceGetUUID 999", "unknown error (999)"},
		{"fail nvmlDeviceGetComputeRunningProcesses_v3 999", "processes: nvmlDeviceGetComputeRunningProcesses_v3"},
	} {
		m.update(func(s *standin.State) { s.Knobs = []string{c.knob} })
		reply := m.ask(nvml.Request{Do: nvml.Look, GPUs: []partition.Address{first}, Usage: true})
		g := reply.GPUs[0]
		if notes := strings.Join(g.Notes, "\n"); reply.Error != nil || g.Error != nil || !strings.Contains(notes, c.note) {
			t.Errorf("%s: %+v\n%s\nwant %q", c.knob, g.Error, notes, c.note)
		}
	}
}

// If an instance cannot be read, the GPU is an error: the planner would otherwise treat the
// instance's slots as free.
func TestRead_IncompleteInstances(t *testing.T) {
	m := node(t, "A100-40GB")
	m.mode(true)
	m.fill("3g.20gb@0")
	for _, c := range []struct {
		knob string
		kind nvml.Kind
		text string
	}{
		{"garbage-name", nvml.Garbage, `profile 2: "" is not a name of a GPU instance profile`},
		{"garbage-count", nvml.Garbage, "at most 1073741824 instances"},
		{"null-instances", nvml.Garbage, "handle 0 of nvmlDeviceGetGpuInstances is null"},
		{"garbage-slices", nvml.Garbage, "a compute instance of 9999 slices"},
		{"fail nvmlDeviceGetGpuInstances 4", nvml.NoPermission, "nvmlDeviceGetGpuInstances: no permission (4)"},
		{"fail nvmlDeviceGetGpuInstanceProfileInfoV 3", nvml.Garbage, "belongs to instance 1, which is not listed"},
	} {
		m.update(func(s *standin.State) { s.Knobs = []string{c.knob} })
		reply := m.look(first)
		if g := reply.GPUs[0]; reply.Error != nil || g.Error == nil || g.Error.Kind != c.kind || !strings.Contains(g.Error.Text, c.text) {
			t.Errorf("%s: %+v", c.knob, g.Error)
		}
		if reply := m.clear(); reply.Error == nil {
			t.Errorf("%s: cleared", c.knob)
		}
	}
	m.update(func(s *standin.State) { s.Knobs = nil })
	m.want(m.clear(), "on")
}

func TestLibrary_OutputIsNoReply(t *testing.T) {
	m := node(t, "A30")
	m.turn("noise")
	if reply := m.look(first); reply.Driver != "580.82.07" {
		t.Errorf("%+v", reply)
	}
}

// Each call of the library calls the driver, which may be slow. So the number of calls is limited.
func TestRead_NumberOfCalls(t *testing.T) {
	m := node(t, "H100-80GB")
	most := func(what string, reply nvml.Reply, calls int) {
		t.Helper()
		if reply.Error != nil || reply.Calls > calls || reply.Calls == 0 {
			t.Errorf("%s: %d calls, at most %d; %+v", what, reply.Calls, calls, reply.Error)
		}
	}
	most("versions", m.look(), 4)
	most("MIG off", m.look(first), 55)
	m.mode(true)
	most("MIG on", m.look(first), 60)
	m.fill("1g.10gb@0", "1g.10gb@1", "1g.10gb@2", "1g.10gb@3", "1g.10gb@4", "1g.10gb@5", "1g.10gb@6")
	most("seven instances", m.look(first), 115)
	most("nothing to do", m.mode(true), 200)
}
