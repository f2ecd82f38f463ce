package attack

import (
	"bufio"
	"bytes"
	"encoding/binary"
	"fmt"
	"io"
	"net"

	"github.com/godbus/dbus/v5"
)

// requester is a connection to the bus that requests a lease. It is not a dbus.Conn, which would read from
// the connection in the background.
type requester struct {
	net.Conn
	in *bufio.Reader
}

// acquireSerial is the serial number of the call that [requester.acquire] makes.
const acquireSerial = 2

func connect() (*requester, error) {
	socket, err := net.Dial("unix", bus)
	if err != nil {
		return nil, err
	}
	a := &requester{socket, bufio.NewReader(socket)}
	if _, err := io.WriteString(a, "\x00AUTH EXTERNAL\r\nDATA\r\nNEGOTIATE_UNIX_FD\r\nBEGIN\r\n"); err != nil {
		return nil, err
	}
	for range 3 { // DATA, OK, AGREE_UNIX_FD
		if _, err := a.in.ReadString('\n'); err != nil {
			return nil, err
		}
	}
	if err := a.send("org.freedesktop.DBus", "/org/freedesktop/DBus", "org.freedesktop.DBus", "Hello", 1); err != nil {
		return nil, err
	}
	return a, awaitReply(a.in, 1)
}

// acquire requests a lease.
func (a *requester) acquire(options map[string]dbus.Variant) error {
	return a.send(name, object, name, "Acquire", acquireSerial, options)
}

func (a *requester) send(to string, object dbus.ObjectPath, intf, method string, serial uint32, args ...any) error {
	m := dbus.Message{Type: dbus.TypeMethodCall, Headers: map[dbus.HeaderField]dbus.Variant{
		dbus.FieldDestination: dbus.MakeVariant(to), dbus.FieldPath: dbus.MakeVariant(object),
		dbus.FieldInterface: dbus.MakeVariant(intf), dbus.FieldMember: dbus.MakeVariant(method),
	}, Body: args}
	if len(args) > 0 {
		m.Headers[dbus.FieldSignature] = dbus.MakeVariant(dbus.SignatureOf(args...))
	}
	var text bytes.Buffer
	if err := m.EncodeTo(&text, binary.LittleEndian); err != nil {
		return err
	}
	binary.LittleEndian.PutUint32(text.Bytes()[8:], serial)
	_, err := a.Write(text.Bytes())
	return err
}

// awaitReply reads messages until the reply to a call. If the reply is an error, it returns that.
func awaitReply(in io.Reader, serial uint32) error {
	for {
		m, err := dbus.DecodeMessage(in)
		if err != nil {
			return err
		}
		if to, _ := m.Headers[dbus.FieldReplySerial].Value().(uint32); to != serial {
			continue
		}
		if m.Type == dbus.TypeError {
			return fmt.Errorf("%v: %v", m.Headers[dbus.FieldErrorName].Value(), m.Body)
		}
		return nil
	}
}
