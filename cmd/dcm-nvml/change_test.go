package main

import (
	"path/filepath"
	"slices"
	"testing"

	"dcm/internal/gpu/nvml"
	"dcm/internal/gpu/nvml/standin"
	"dcm/internal/gpu/partition"
)

// TestChange_EachDriver changes MIG with each driver generation. They differ in the profiles that
// they report with MIG off.
func TestChange_EachDriver(t *testing.T) {
	m := node(t, "A30")
	for _, c := range []struct {
		driver string
		before int // profiles with placements that are reported with MIG off
	}{{"535.261.03", 0}, {"550.163.01", 7}, {"580.82.07", 7}} {
		m := m.with(t)
		s, err := standin.New(c.driver, "H100-80GB", first, second)
		if err == nil {
			err = standin.Write(m.state, s)
		}
		if err != nil {
			t.Fatal(err)
		}
		m.turn("ids-reversed " + string(second))
		reply := m.look(first)
		if offers := reply.GPUs[0].Offers(); reply.Driver != c.driver || len(offers) != c.before {
			t.Errorf("%s offers %+v", reply.Driver, offers)
		}
		m.want(m.mode(true), "on")
		m.want(m.fill("3g.40gb@4", "2g.20gb@0=1c.2g.20gb,1c.2g.20gb", "1g.10gb@2"), "on 2g.20gb@0=1c.2g.20gb,1c.2g.20gb 1g.10gb@2 3g.40gb@4")
		m.want(m.mode(false), "off")
	}
}

// Each board accepts each profile at each of its placements, and as many instances of it as the
// board reports.
func TestChange_EachProfileOfEachBoard(t *testing.T) {
	m := node(t, "A30")
	for _, b := range partition.Boards() {
		t.Run(b.Name, func(t *testing.T) {
			m := m.with(t)
			s, err := standin.New("580.82.07", b.Name, first, second)
			if err == nil {
				err = standin.Write(m.state, s)
			}
			if err != nil {
				t.Fatal(err)
			}
			m.want(m.mode(true), "on")
			for _, p := range b.Profiles {
				var counts partition.MIG
				for range p.InstanceCount {
					counts.Instances = append(counts.Instances, partition.Instance{Profile: p.Name, Start: -1})
				}
				packed, err := partition.Pack(b.Profiles, counts)
				if err != nil {
					t.Fatal(err)
				}
				reply := m.ask(nvml.Request{Do: nvml.Fill, GPU: first, Instances: packed.Instances})
				if reply.Error != nil {
					t.Fatalf("%s: %+v", packed, reply.Error)
				}
				if now, whole := reply.GPUs[0].Geometry(); !whole || !now.Same(packed) {
					t.Errorf("created %s, read back %s", packed, now)
				}
				if devices := len(reply.GPUs[0].Devices); devices != p.InstanceCount {
					t.Errorf("%s: %d MIG devices", packed, devices)
				}
				m.want(m.clear(), "on")
			}
			m.want(m.mode(false), "off")
		})
	}
}

func TestChange_VerifiesGeometry(t *testing.T) {
	m := node(t, "H100-80GB")
	for _, ids := range []string{"", "ids-reversed"} {
		if ids != "" {
			m.turn(ids)
		}
		m.want(m.mode(true), "on")
		m.want(m.fill("1g.10gb@6", "3g.40gb@0=1c.3g.40gb,1c.3g.40gb"), "on 3g.40gb@0=1c.3g.40gb,1c.3g.40gb 1g.10gb@6")
		m.want(m.fill("2g.20gb@4"), "on 3g.40gb@0=1c.3g.40gb,1c.3g.40gb 2g.20gb@4 1g.10gb@6")
		m.want(m.mode(true), "on 3g.40gb@0=1c.3g.40gb,1c.3g.40gb 2g.20gb@4 1g.10gb@6")
		m.want(m.clear(), "on")
		m.want(m.fill("7g.80gb@0"), "on 7g.80gb@0")
		m.want(m.mode(false), "off")
		m.want(m.clear(), "off")
	}
}

// A change calls the library for its own GPU only. It destroys compute instances before their GPU
// instance.
func TestChange_OneGPUOnly(t *testing.T) {
	m := node(t, "A100-80GB")
	m.mode(true)
	m.fill("3g.40gb@0", "3g.40gb@4")
	log := filepath.Join(t.TempDir(), "log")
	m.turn("log " + log)
	m.want(m.mode(false), "off")
	if calls := m.calls(log, second); calls != nil {
		t.Errorf("calls for the other GPU: %q, want none", calls)
	}
	var order []string
	for _, c := range m.calls(log, first) {
		if slices.Contains([]string{"nvmlComputeInstanceDestroy", "nvmlGpuInstanceDestroy", "nvmlDeviceSetMigMode"}, c) {
			order = append(order, c)
		}
	}
	if !slices.Equal(order, []string{"nvmlComputeInstanceDestroy", "nvmlGpuInstanceDestroy", "nvmlDeviceSetMigMode"}) {
		t.Errorf("destroyed in the order %q", order)
	}
}

// The instances that are not listed stay, with their ids and users.
func TestClear_Listed(t *testing.T) {
	m := node(t, "H100-80GB")
	m.mode(true)
	before := m.fill("2g.20gb@0", "1g.10gb@2", "3g.40gb@4=1c.3g.40gb,2c.3g.40gb")
	some := func(list ...string) nvml.Reply {
		return m.ask(nvml.Request{Do: nvml.Clear, GPU: first, Instances: instances(t, list...)})
	}
	m.update(func(s *standin.State) {
		for i := range s.GPUs[0].Instances {
			if s.GPUs[0].Instances[i].Start != 2 {
				s.GPUs[0].Instances[i].Busy = 1
			}
		}
	})
	reply := some("1g.10gb@2", "1g.10gb@3") // the second does not exist
	m.want(reply, "on 2g.20gb@0 3g.40gb@4=1c.3g.40gb,2c.3g.40gb")
	for i, was := range []int{0, 2} {
		if got, want := reply.GPUs[0].Instances[i].ID, before.GPUs[0].Instances[was].ID; got != want {
			t.Errorf("instance %d has the id %d, want %d", i, got, want)
		}
	}
	m.wantError(some("2g.20gb@0"), nvml.InUse, "2g.20gb in instance")
	m.want(m.fill("1g.10gb@2"), "on 2g.20gb@0 1g.10gb@2 3g.40gb@4=1c.3g.40gb,2c.3g.40gb")
	m.wantError(m.mode(false), nvml.InUse, "")
}

func TestMode_Conditions(t *testing.T) {
	on, off := true, false
	for _, c := range []struct {
		name, board string
		change      func(*standin.GPU)
		knob        string
		to          *bool
		kind        nvml.Kind
		text, now   string
		pending     bool
	}{
		{"device node is open", "A100-40GB", func(g *standin.GPU) { g.Busy = 1 }, "", &on, nvml.InUse, "could not activate it", "off", true},
		{"success, and in use", "H100-80GB", nil, "mode-activation 19", &on, nvml.InUse, "in use (19)", "off", true},
		{"success, and a reset", "H100-80GB", nil, "mode-activation 16 " + string(first), &on, nvml.ResetRequired, "reset first (16)", "off", true},
		{"a reset immediately", "A30", nil, "fail nvmlDeviceSetMigMode 16", &on, nvml.ResetRequired, "nvmlDeviceSetMigMode", "off", false},
		{"no permission", "A30", nil, "fail nvmlDeviceSetMigMode 4", &on, nvml.NoPermission, "no permission", "off", false},
		{"success without effect", "A30", nil, "mode-nothing", &on, nvml.Mismatch, "is not read back", "off", false},
		{"it waits for a reset", "A30", nil, "mode-late", &on, nvml.ResetRequired, "was set and needs a reset", "off", true},
		{"a vGPU", "A100-40GB", func(g *standin.GPU) { g.Virtualization = 2 }, "", &on, nvml.NotSupported, "only the host", "off", false},
		{"passed through with reset", "A100-40GB", func(g *standin.GPU) { g.Virtualization = 1 }, "", &on, nvml.ResetRequired, "set the mode on the host", "off", false},
		{"passed through, mode unknown", "A100-40GB", func(g *standin.GPU) { g.Virtualization, g.Resetless = 1, -1 }, "", &on, nvml.ResetRequired, "set the mode on the host", "off", false},
		{"an instance in use", "H100-80GB", func(g *standin.GPU) {
			g.Current, g.Pending = true, true
			g.Instances = []standin.Instance{{ID: 1, Profile: "3g.40gb", Compute: []standin.Compute{{Slices: 3}}}}
			g.Processes = []standin.Process{{PID: 7, GI: 1}}
		}, "", &off, nvml.InUse, "3g.40gb in instance 1 of 0000:41:00.0: nvmlComputeInstanceDestroy", "on 3g.40gb@0", true},
		{"an instance that does not go", "H100-80GB", func(g *standin.GPU) {
			g.Current, g.Pending = true, true
			g.Instances = []standin.Instance{{ID: 1, Profile: "3g.40gb", Compute: []standin.Compute{{Slices: 3}}}}
		}, "fail nvmlGpuInstanceDestroy 19", &off, nvml.InUse, "instance 1 (3g.40gb at slot 0) of 0000:41:00.0", "on 3g.40gb@0=", true},
		{"the GPU is lost during the change", "H100-80GB", nil, "fail nvmlDeviceSetMigMode 15", &on, nvml.Lost, "lost", "off", false},
	} {
		t.Run(c.name, func(t *testing.T) {
			m := node(t, c.board)
			m.update(func(s *standin.State) {
				if c.change != nil {
					c.change(&s.GPUs[0])
				}
				if c.knob != "" {
					s.Knobs = []string{c.knob}
				}
			})
			reply := m.ask(nvml.Request{Do: nvml.Mode, GPU: first, On: c.to})
			m.wantError(reply, c.kind, c.text)
			if now := there(reply); now != c.now || reply.GPUs[0].MIG.Pending != c.pending {
				t.Errorf("geometry %q, pending %+v; want %q, %t", now, reply.GPUs[0].MIG, c.now, c.pending)
			}
		})
	}
}

// A requested mode that is still pending can be undone.
func TestMode_UndoesPendingMode(t *testing.T) {
	m := node(t, "A100-40GB")
	m.update(func(s *standin.State) { s.GPUs[0].Busy = 1 })
	m.wantError(m.mode(true), nvml.InUse, "")
	m.update(func(s *standin.State) { s.GPUs[0].Busy = 0 })
	reply := m.mode(false)
	m.want(reply, "off")
	if reply.GPUs[0].MIG.Pending {
		t.Error("MIG is still pending after the undo")
	}
}

func TestFill_Errors(t *testing.T) {
	m := node(t, "H100-80GB")
	m.wantError(m.fill("7g.80gb@0"), nvml.NotSupported, "MIG is off")
	m.mode(true)
	for _, c := range []struct {
		name, knob string
		fill       []string
		kind       nvml.Kind
		text, now  string
	}{
		{"no such profile", "", []string{"1g.10gb@0", "1g.5gb@1"}, nvml.NoProfile, "has no profile 1g.5gb (possible: 1g.10gb", "on"},
		{"no such place", "", []string{"1g.10gb@0", "3g.40gb@2"}, nvml.NoProfile, "3g.40gb has no slot 2", "on"},
		{"no room", "", []string{"4g.40gb@0", "3g.40gb@0"}, nvml.NoResources, "3g.40gb at slot 0 of 0000:41:00.0: nvmlDeviceCreateGpuInstanceWithPlacement: insufficient", "on 4g.40gb@0"},
		{"the third fails", "fail nvmlDeviceCreateGpuInstanceWithPlacement 23 2 1", []string{"1g.10gb@0", "1g.10gb@1", "1g.10gb@2", "1g.10gb@3"}, nvml.NoResources, "1g.10gb at slot 2", "on 1g.10gb@0 1g.10gb@1"},
		{"a compute instance fails", "fail nvmlGpuInstanceCreateComputeInstance 23", []string{"3g.40gb@0"}, nvml.NoResources, "3g.40gb in 3g.40gb at slot 0", "on 3g.40gb@0="},
		{"the second does not fit", "", []string{"3g.40gb@0=2c.3g.40gb,2c.3g.40gb"}, nvml.NoResources, "2c.3g.40gb in 3g.40gb", "on 3g.40gb@0=2c.3g.40gb"},
		{"elsewhere", "misplaced", []string{"3g.40gb@0"}, nvml.Mismatch, "3g.40gb was created at slot 0 of 0000:41:00.0 but is not read back", "on 3g.40gb@4"},
		{"no compute instance", "ghost-compute", []string{"3g.40gb@0"}, nvml.Mismatch, "but [] are read back", "on 3g.40gb@0="},
		{"no permission", "fail nvmlDeviceCreateGpuInstanceWithPlacement 4", []string{"3g.40gb@0"}, nvml.NoPermission, "no permission", "on"},
	} {
		t.Run(c.name, func(t *testing.T) {
			m := m.with(t)
			m.update(func(s *standin.State) {
				s.Knobs, s.GPUs[0].Instances = nil, nil
				if c.knob != "" {
					s.Knobs = []string{c.knob}
				}
			})
			reply := m.fill(c.fill...)
			m.wantError(reply, c.kind, c.text)
			if now := there(reply); now != c.now && now != c.now+" " {
				t.Errorf("geometry %q, want %q", now, c.now)
			}
		})
	}
}

// Slots of another instance are an error before anything is created. An instance without a compute instance
// is destroyed.
func TestFill_OccupiedSlots(t *testing.T) {
	m := node(t, "H100-80GB")
	m.mode(true)
	m.want(m.fill("2g.20gb@0", "1g.10gb@2"), "on 2g.20gb@0 1g.10gb@2")
	reply := m.fill("3g.40gb@4", "2g.20gb@2")
	m.wantError(reply, nvml.Occupied, "no room for 2g.20gb at slot 2: 1g.10gb is at slot 2")
	m.want(m.look(first), "on 2g.20gb@0 1g.10gb@2")
	m.update(func(s *standin.State) {
		s.GPUs[0].Instances[1].Compute = nil
	})
	m.want(m.fill("3g.40gb@4", "2g.20gb@2"), "on 2g.20gb@0 2g.20gb@2 3g.40gb@4")
}

// The driver reports wrong instance counts for an A30. The existing instances are read despite
// that.
func TestRead_WrongCounts(t *testing.T) {
	m := node(t, "A30")
	m.turn("wrong-counts -1")
	m.mode(true)
	m.want(m.fill("1g.6gb@0", "1g.6gb@1", "1g.6gb@2", "1g.6gb@3"), "on 1g.6gb@0 1g.6gb@1 1g.6gb@2 1g.6gb@3")
}

// After a reboot a Hopper GPU has MIG off; an Ampere GPU keeps its MIG mode, without instances.
func TestChange_AfterRestart(t *testing.T) {
	for board, now := range map[string]string{"A100-40GB": "on", "H100-80GB": "off", "B200-180GB": "off", "A30": "on"} {
		m := node(t, board)
		m.mode(true)
		m.update(func(s *standin.State) {
			g := &s.GPUs[0]
			g.Instances = []standin.Instance{{ID: 1, Profile: g.Profiles[0].Name}}
			s.Reboot()
		})
		m.want(m.look(first), now)
	}
}
