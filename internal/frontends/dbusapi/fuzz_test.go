package dbusapi

import (
	"bytes"
	"context"
	"encoding/binary"
	"log/slog"
	"net"
	"testing"

	"github.com/godbus/dbus/v5"

	"dcm/internal/engine/runstate"
)

// FuzzMessage sends any message. The service must answer or refuse it. The test looks up the method
// as godbus does.
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
	ours, theirs := net.Pipe()
	f.Cleanup(func() { ours.Close(); theirs.Close() })
	conn, err := dbus.NewConn(ours)
	if err != nil {
		f.Fatal(err)
	}
	f.Fuzz(func(t *testing.T, raw []byte) {
		msg, err := dbus.DecodeMessage(bytes.NewReader(raw))
		if err != nil || msg.IsValid() != nil || msg.Type != dbus.TypeMethodCall {
			return // the bus does not forward it
		}
		path, _ := msg.Headers[dbus.FieldPath].Value().(dbus.ObjectPath)
		intf, _ := msg.Headers[dbus.FieldInterface].Value().(string)
		member, _ := msg.Headers[dbus.FieldMember].Value().(string)
		object, ok := s.tree.LookupObject(path)
		if !ok {
			return
		}
		found, ok := object.LookupInterface(intf)
		if !ok {
			return
		}
		m, ok := found.LookupMethod(member)
		if !ok {
			return
		}
		args, err := m.(dbus.ArgumentDecoder).DecodeArguments(conn, ":1.7", msg, msg.Body)
		if err != nil {
			return
		}
		out, err := m.Call(args...)
		if err == nil && len(out) != m.NumReturns() {
			t.Fatalf("%s.%s: %d return values, want %d", intf, member, len(out), m.NumReturns())
		}
	})
}
