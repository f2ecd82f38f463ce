package dbusapi

import (
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/godbus/dbus/v5"
	"github.com/godbus/dbus/v5/introspect"
	"github.com/google/go-cmp/cmp"

	"dcm/internal/engine/runstate"
	"dcm/internal/frontends/status"
	"dcm/internal/testkit/testdeadline"
)

var twoGPUs = []status.GPU{
	{Address: "0000:05:00.0", Vendor: "amd", Model: "MI300X", Mode: status.Shape{Compute: "SPX", Memory: "NPS1"}, Partitions: 1, Nodes: []string{"/dev/dri/renderD128"}},
	{Address: "0000:26:00.0", Index: 1, Model: "MI300X", Mode: status.Shape{Compute: "SPX", Memory: "NPS1"}, Partitions: 1},
}

// at returns an account with these GPUs.
func at(phase runstate.Phase, run string, gpus []status.GPU) status.Account {
	return status.Account{Daemon: status.Daemon{Phase: phase}, Profile: status.Profile{Effective: "cpx"}, LastRun: &runstate.Run{ID: run}, GPUs: gpus}
}

func TestPublish_Properties(t *testing.T) {
	b := startBus(t)
	s, _ := b.serve(&desk{}, 1000)
	since := time.UnixMicro(1700000000000000)
	a := at(runstate.InSync, "1", twoGPUs)
	a.DCM, a.Daemon.Since, a.Profile.Defined = "1.2", since, []string{"cpx", "spx"}
	a.Clients = []status.Client{{Unit: "a.service", Before: "active", Active: "active", Result: "success", Back: true}}
	a.Parts = []status.Part{{Name: "0000:26:00.0-1", GPU: "0000:26:00.0", Index: 1, RenderNode: "/dev/dri/renderD137", RenderMinor: 137, Memory: 24 << 30, Domain: 3}}
	a.Daemon.Progress = &runstate.Progress{Done: 6, Total: 8}
	a.Health = status.Health{State: status.Clients, InSync: true, Summary: "Profile cpx is on the GPUs, but"}
	a.Problems = []status.Problem{{State: status.Disabled, Text: "off"}, {State: status.Clients, Text: "a client is down", Hint: "start it"}}
	s.Publish(a)
	b.owned()
	conn := b.connect()
	get := func(path dbus.ObjectPath, intf, name string) string {
		t.Helper()
		v, err := conn.Object(Name, path).GetProperty(intf + "." + name)
		if err != nil {
			t.Fatal(err)
		}
		return v.Signature().String() + " " + v.String()
	}
	got := map[string]string{}
	for _, name := range []string{"Version", "State", "Since", "Profiles", "Clients", "GPUs", "Error", "Hint", "Warnings", "Health", "InSync", "Summary", "Progress"} {
		got[name] = get(Path, Interface, name)
	}
	for _, name := range []string{"Address", "ComputeMode", "Partitions", "RenderNodes", "NUMANode"} {
		got[name] = get("/org/deviceconfig/Manager1/gpu/_0000_05_00_0", gpuInterface, name)
	}
	for _, name := range []string{"Name", "GPU", "RenderMinor", "MemoryBytes", "MemoryDomain"} {
		got[name] = get("/org/deviceconfig/Manager1/gpu/_0000_26_00_0/_1", partInterface, name)
	}
	want := map[string]string{
		"Version": `s "1.2"`, "State": `s "in-sync"`, "Since": "t @t 1700000000000000", "Profiles": `as ["cpx", "spx"]`,
		"Clients":  `a(ssssb) [["a.service", "active", "active", "success", true]]`,
		"GPUs":     `ao @ao ["/org/deviceconfig/Manager1/gpu/_0000_05_00_0", "/org/deviceconfig/Manager1/gpu/_0000_26_00_0"]`,
		"Progress": "(uu) @(uu) [6, 8]", "Error": `s "a client is down"`, "Hint": `s "start it"`, "Warnings": "as @as []",
		"Health": `s "clients-down"`, "InSync": "b true", "Summary": `s "Profile cpx is on the GPUs, but"`,
		"Name": `s "0000:26:00.0-1"`, "GPU": `o @o "/org/deviceconfig/Manager1/gpu/_0000_26_00_0"`, "RenderMinor": "u @u 137",
		"MemoryBytes": "t @t 25769803776", "MemoryDomain": "u @u 3",
		"Address": `s "0000:05:00.0"`, "ComputeMode": `s "SPX"`, "Partitions": "u @u 1", "RenderNodes": `as ["/dev/dri/renderD128"]`, "NUMANode": "i 0",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("properties (-want +got):\n%s", diff)
	}
	c, err := Dial(t.Context(), b.address)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	m, err := c.Manager(t.Context())
	if err != nil || m.State != "in-sync" || m.Selected != "cpx" || !m.Since.Equal(since) || !m.Retry.IsZero() {
		t.Errorf("manager: got %+v, %v", m, err)
	}
}

func TestPublish_Signals(t *testing.T) {
	b := startBus(t)
	s, _ := b.serve(&desk{}, 1000)
	s.Publish(at(runstate.InSync, "0", twoGPUs))
	b.owned()
	conn := b.connect()
	signals := make(chan *dbus.Signal, 100)
	conn.Signal(signals)
	if err := conn.AddMatchSignal(dbus.WithMatchPathNamespace(Path)); err != nil {
		t.Fatal(err)
	}
	changed := slices.Clone(twoGPUs)
	changed[0].Mode.Compute = "CPX"
	s.Publish(at(runstate.InSync, "0", twoGPUs)) // no change
	s.Publish(at(runstate.Applying, "1", changed))
	s.Publish(at(runstate.Applying, "1", changed[:1]))
	s.Publish(at(runstate.Applying, "1", changed))
	want := []string{
		"PropertiesChanged Manager1: State; LastReport",
		"PropertiesChanged gpu/_0000_05_00_0: ComputeMode; ",
		"InterfacesRemoved gpu/_0000_26_00_0",
		"PropertiesChanged Manager1: GPUs; ",
		"PropertiesChanged Manager1: GPUs; ",
		"InterfacesAdded gpu/_0000_26_00_0 with 26",
	}
	if diff := cmp.Diff(want, hear(t, signals, len(want))); diff != "" {
		t.Errorf("signals (-want +got):\n%s", diff)
	}
}

// A node of eight GPUs in CPX has 72 objects. After a start that changes nothing, no signals should
// announce them before a client has called.
func TestPublish_FirstGPUs(t *testing.T) {
	for _, asked := range []bool{false, true} {
		b := startBus(t)
		s, _ := b.serve(&desk{}, 1000)
		b.owned()
		conn := b.connect()
		signals := make(chan *dbus.Signal, 100)
		conn.Signal(signals)
		if err := conn.AddMatchSignal(dbus.WithMatchPathNamespace(Path)); err != nil {
			t.Fatal(err)
		}
		if asked {
			var all map[dbus.ObjectPath]map[string]map[string]dbus.Variant
			if err := conn.Object(Name, Path).Call(objectManagerInterface+".GetManagedObjects", 0).Store(&all); err != nil || len(all) > 0 {
				t.Fatalf("objects before the first query: %v, %v", all, err)
			}
		}
		s.Publish(at(runstate.InSync, "0", twoGPUs))
		s.Publish(at(runstate.Idle, "0", twoGPUs)) // the signal of this change is the last one
		want := []string{"PropertiesChanged Manager1: GPUs SelectedProfile State; LastReport"}
		if asked {
			want = append(want, "InterfacesAdded gpu/_0000_05_00_0 with 26", "InterfacesAdded gpu/_0000_26_00_0 with 26")
		}
		want = append(want, "PropertiesChanged Manager1: State; ")
		if diff := cmp.Diff(want, hear(t, signals, len(want))); diff != "" {
			t.Errorf("signals after a query (%t) (-want +got):\n%s", asked, diff)
		}
	}
}

// hear waits for a number of signals of the daemon.
func hear(t *testing.T, signals <-chan *dbus.Signal, count int) (got []string) {
	t.Helper()
	for len(got) < count {
		select {
		case signal := <-signals:
			if strings.HasPrefix(string(signal.Path), string(Path)) { // not a signal of the bus itself
				got = append(got, spell(signal))
			}
		case <-testdeadline.After(eventTimeout):
			t.Fatalf("signals: got only %q", got)
		}
	}
	return got
}

// spell formats a signal in one line.
func spell(s *dbus.Signal) string {
	short := func(v any) string {
		return strings.TrimPrefix(strings.TrimPrefix(string(v.(dbus.ObjectPath)), "/org/deviceconfig/Manager1/"), "/org/deviceconfig/")
	}
	name := s.Name[strings.LastIndex(s.Name, ".")+1:]
	switch name {
	case "PropertiesChanged":
		var changed []string
		for p := range s.Body[1].(map[string]dbus.Variant) {
			changed = append(changed, p)
		}
		slices.Sort(changed)
		return name + " " + short(s.Path) + ": " + strings.Join(changed, " ") + "; " + strings.Join(s.Body[2].([]string), " ")
	case "InterfacesAdded":
		all := s.Body[1].(map[string]map[string]dbus.Variant)[gpuInterface]
		return name + " " + short(s.Body[0]) + " with " + string(rune('0'+len(all)/10)) + string(rune('0'+len(all)%10))
	}
	return name + " " + short(s.Body[0])
}

func TestRun_BusRestarts(t *testing.T) {
	b := startBus(t)
	_, appeared := b.serve(&desk{}, 1000)
	b.owned()
	b.stop()
	b.start()
	b.owned()
	b.stop()
	b.start()
	appeared <- struct{}{}
	b.owned()
}

func TestRun_WaitsForBus(t *testing.T) {
	b := startBus(t)
	b.stop()
	_, appeared := b.serve(&desk{}, 1000)
	b.start()
	appeared <- struct{}{}
	b.owned()
}

func TestRun_NameIsOwned(t *testing.T) {
	b := startBus(t)
	other := b.connect()
	if _, err := other.RequestName(Name, dbus.NameFlagDoNotQueue); err != nil {
		t.Fatal(err)
	}
	b.serve(&desk{}, 1000)
	conn := b.connect()
	for { // until the daemon's request for the name is queued
		var queue []string
		if err := conn.BusObject().Call(busName+".ListQueuedOwners", 0, Name).Store(&queue); err != nil {
			t.Fatal(err)
		}
		if len(queue) == 2 {
			break
		}
	}
	other.Close()
	b.owned()
	if _, err := conn.Object(Name, Path).GetProperty(Interface + ".State"); err != nil {
		t.Error(err)
	}
}

// The rounds of a change have a method of their own, since the results of Plan are stable.
func TestPlanRounds(t *testing.T) {
	b := startBus(t)
	b.serve(&desk{}, 1000)
	b.owned()
	var rounds []Round
	var waits string
	if err := b.connect().Object(Name, Path).Call(Interface+".PlanRounds", 0, "cpx").Store(&rounds, &waits); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]Round{{GPUs: []string{"0000:05:00.0"}, Clients: []string{"a.service"}}}, rounds); diff != "" || waits != "b.service is down" {
		t.Errorf("waits %q, rounds (-want +got):\n%s", waits, diff)
	}
}

func TestIntrospect_AllObjects(t *testing.T) {
	b := startBus(t)
	s, _ := b.serve(&desk{}, 1000)
	s.Publish(status.Account{GPUs: twoGPUs})
	b.owned()
	conn := b.connect()
	tests := []struct {
		path  dbus.ObjectPath
		holds []string
	}{
		{"/", []string{`<node name="org">`}},
		{"/org/deviceconfig", []string{`<node name="Manager1">`}},
		{Path, []string{`<node name="gpu">`, `<interface name="org.deviceconfig.Manager1">`, `<method name="Plan">`, `type="a(sasss)"`,
			`<property name="GPUs" type="ao" access="read">`, `value="invalidates"`, `<signal name="PropertiesChanged">`, `<method name="GetManagedObjects">`}},
		{gpuPaths, []string{`<node name="_0000_05_00_0">`, `<node name="_0000_26_00_0">`}},
		{gpuPaths + "/_0000_05_00_0", []string{`<interface name="org.deviceconfig.Manager1.GPU">`, `<property name="ComputeMode" type="s" access="read">`}},
	}
	for _, tt := range tests {
		var xml string
		if err := conn.Object(Name, tt.path).Call(introspectableInterface+".Introspect", 0).Store(&xml); err != nil {
			t.Errorf("%s: %v", tt.path, err)
		}
		for _, text := range tt.holds {
			if !strings.Contains(xml, text) {
				t.Errorf("introspection of %s lacks %s:\n%s", tt.path, text, xml)
			}
		}
		node, err := introspect.Call(conn.Object(Name, tt.path))
		if err != nil || len(node.Interfaces) < 2 || node.Interfaces[len(node.Interfaces)-1].Methods[1].Args[0].Direction != "out" {
			t.Errorf("%s: %v, parsed: %+v", tt.path, err, node)
		}
	}
	var objects map[dbus.ObjectPath]map[string]map[string]dbus.Variant
	if err := conn.Object(Name, Path).Call(objectManagerInterface+".GetManagedObjects", 0).Store(&objects); err != nil || len(objects) != 2 {
		t.Errorf("managed objects: got %v, %v", objects, err)
	}
}

func TestCalls_Invalid(t *testing.T) {
	b := startBus(t)
	b.serve(&desk{}, 0)
	b.owned()
	conn := b.connect()
	tests := []struct {
		name   string
		path   dbus.ObjectPath
		method string
		args   []any
		err    string
	}{
		{"no such object", Path + "/gpu/_1", propertiesInterface + ".GetAll", []any{""}, "org.freedesktop.DBus.Error.NoSuchObject"},
		{"no such interface", Path, "org.deviceconfig.Manager2.Apply", nil, "org.freedesktop.DBus.Error.UnknownInterface"},
		{"no such method", Path, Interface + ".Stop", nil, "org.freedesktop.DBus.Error.UnknownMethod"},
		{"no such property", Path, propertiesInterface + ".Get", []any{Interface, "Colour"}, "org.freedesktop.DBus.Error.UnknownProperty"},
		{"Set of a property", Path, propertiesInterface + ".Set", []any{Interface, "State", dbus.MakeVariant("x")}, "org.freedesktop.DBus.Error.PropertyReadOnly"},
		{"properties of no interface", Path, propertiesInterface + ".GetAll", []any{"a.b"}, "org.freedesktop.DBus.Error.UnknownInterface"},
		{"too few arguments", Path, Interface + ".Use", nil, "org.freedesktop.DBus.Error.InvalidArgs"},
		{"arguments of another type", Path, Interface + ".Use", []any{uint32(3)}, "org.freedesktop.DBus.Error.InvalidArgs"},
		{"a name that is too long", Path, Interface + ".Plan", []any{strings.Repeat("x", 1<<15)}, "org.freedesktop.DBus.Error.InvalidArgs"},
		{"a call that is too large", Path, Interface + ".Plan", []any{strings.Repeat("x", 1<<20)}, "org.freedesktop.DBus.Error.LimitsExceeded"},
		{"Peer without an object", "/nowhere", peerInterface + ".Stop", nil, "org.freedesktop.DBus.Error.UnknownMethod"},
		{"too many arguments", Path, Interface + ".Apply", []any{"x"}, "org.freedesktop.DBus.Error.InvalidArgs"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			var remote dbus.Error
			err := conn.Object(Name, tt.path).Call(tt.method, 0, tt.args...).Err
			if !errors.As(err, &remote) || remote.Name != tt.err {
				t.Errorf("%s: %v (%s), want %s", tt.method, err, remote.Name, tt.err)
			}
		})
	}
}
