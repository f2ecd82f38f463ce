package dbusapi

import (
	"bytes"
	"context"
	"encoding/binary"
	"log/slog"
	"testing"

	"github.com/godbus/dbus/v5"

	"dcm/internal/engine/runstate"
	"dcm/internal/frontends/admission"
)

// FuzzMessage sends any message. The service must answer or refuse it.
func FuzzMessage(f *testing.F) {
	add := func(path dbus.ObjectPath, intf, member string, args ...any) {
		msg := &dbus.Message{Type: dbus.TypeMethodCall, Headers: map[dbus.HeaderField]dbus.Variant{
			dbus.FieldPath: dbus.MakeVariant(path), dbus.FieldMember: dbus.MakeVariant(member),
		}, Body: args}
		if intf != "" {
			msg.Headers[dbus.FieldInterface] = dbus.MakeVariant(intf)
		}
		if len(args) > 0 {
			msg.Headers[dbus.FieldSignature] = dbus.MakeVariant(dbus.SignatureOf(args...))
		}
		var b bytes.Buffer
		if err := msg.EncodeTo(&b, binary.LittleEndian); err != nil {
			f.Fatal(err)
		}
		f.Add(b.Bytes())
	}
	add(Path, Interface, "Apply")
	add(Path, Interface, "Use", "cpx\x1b[2J")
	add(Path, Interface, "Plan", "")
	add(Path, Interface, "Plan", uint32(7))
	add(Path, propertiesInterface, "Get", Interface, "State")
	add(Path, propertiesInterface, "GetAll", gpuInterface)
	add(Path, propertiesInterface, "Set", Interface, "State", dbus.MakeVariant(dbus.MakeVariant([]string{"x"})))
	add(Path, objectManagerInterface, "GetManagedObjects")
	add(gpuPath("0000:05:00.0"), "", "Introspect")
	add("/", introspectableInterface, "Introspect")

	s := New("", controlBy(&desk{}), slog.New(slog.DiscardHandler))
	s.handler.caller = func(context.Context, call) (credentials, error) { return credentials{pid: 7}, nil }
	s.Publish(at(runstate.InSync, "0", twoGPUs))
	conn := startBus(f).join()
	backlog := admission.NewBacklog(backlogLimits)
	f.Fuzz(func(t *testing.T, raw []byte) {
		msg, err := dbus.DecodeMessage(bytes.NewReader(raw))
		if err == nil && (msg.IsValid() != nil || msg.Type != dbus.TypeMethodCall) {
			return // the bus does not forward it
		}
		received, err := backlog.Receive(":1.7", 100)
		if err != nil {
			t.Fatal(err)
		}
		defer received.Leave()
		c := call{conn: conn, sender: ":1.7", received: received, leave: func() {}}
		out, err := s.handler.run(&c, s.tree.latest(), raw)
		defer c.leave()
		if err != nil {
			return
		}
		m, err := s.tree.latest().method(msg)
		if err != nil {
			t.Fatal(err)
		}
		if len(out) != len(m.out) {
			t.Fatalf("%s: %d return values, want %d", m.name, len(out), len(m.out))
		}
	})
}
