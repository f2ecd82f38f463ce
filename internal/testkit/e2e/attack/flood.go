package attack

import (
	"bufio"
	"bytes"
	"context"
	"encoding/binary"
	"fmt"
	"io"
	"net"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/godbus/dbus/v5"
)

// Flood makes calls of one kind for a number of seconds, concurrently, and prints how many
// returned.
func Flood(kind string, seconds string, out io.Writer) error {
	limit, err := strconv.Atoi(seconds)
	if err != nil {
		return err
	}
	c, err := kindOf(kind)
	if err != nil {
		return err
	}
	conn, err := dbus.ConnectSystemBus()
	if err != nil {
		return err
	}
	defer conn.Close()
	var returned atomic.Int64
	var all sync.WaitGroup
	ctx, cancel := context.WithTimeout(context.Background(), time.Duration(limit)*time.Second)
	defer cancel()
	n := concurrent
	if kind == "wait" {
		n = waiters
	}
	for range n {
		all.Go(func() {
			for ctx.Err() == nil {
				conn.Object(name, object).CallWithContext(ctx, c.intf+"."+c.method, 0, c.args...)
				returned.Add(1)
			}
		})
	}
	all.Wait()
	_, err = fmt.Fprintln(out, returned.Load())
	return err
}

// Pour writes calls of one kind for a number of seconds, on several connections, as fast as the bus reads them.
// It prints how many it wrote. The mode is "read" to read the replies, "unread" to leave them to the bus, or
// "noreply" for calls without replies.
func Pour(kind, seconds, connections, mode string, out io.Writer) error {
	limit, err := strconv.Atoi(seconds)
	if err != nil {
		return err
	}
	n, err := strconv.Atoi(connections)
	if err != nil {
		return err
	}
	c, err := kindOf(kind)
	if err != nil {
		return err
	}
	var written atomic.Int64
	var all sync.WaitGroup
	ctx, cancel := context.WithTimeout(context.Background(), time.Duration(limit)*time.Second)
	defer cancel()
	for range n {
		all.Go(func() {
			for ctx.Err() == nil { // the bus may end a connection
				_ = pour(ctx, c, mode, &written)
			}
		})
	}
	all.Wait()
	_, err = fmt.Fprintln(out, written.Load())
	return err
}

// pour writes calls until the connection or ctx ends.
func pour(ctx context.Context, c kind, mode string, written *atomic.Int64) error {
	conn, err := new(net.Dialer).DialContext(ctx, "unix", bus)
	if err != nil {
		return err
	}
	defer conn.Close()
	defer context.AfterFunc(ctx, func() { conn.Close() })()
	hello, err := encoded("org.freedesktop.DBus", "/org/freedesktop/DBus", kind{"org.freedesktop.DBus", "Hello", nil}, 0)
	if err != nil {
		return err
	}
	if _, err := conn.Write(append([]byte("\x00AUTH EXTERNAL\r\nDATA\r\nBEGIN\r\n"), hello...)); err != nil {
		return err
	}
	if mode != "unread" {
		go io.Copy(io.Discard, conn)
	}
	flags := dbus.Flags(0)
	if mode == "noreply" {
		flags = dbus.FlagNoReplyExpected
	}
	call, err := encoded(name, object, c, flags)
	if err != nil {
		return err
	}
	to := bufio.NewWriter(conn)
	for serial := uint32(2); ; serial++ {
		binary.LittleEndian.PutUint32(call[8:], serial)
		if _, err := to.Write(call); err != nil {
			return err
		}
		written.Add(1)
	}
}

func encoded(to string, path dbus.ObjectPath, c kind, flags dbus.Flags) ([]byte, error) {
	m := dbus.Message{Type: dbus.TypeMethodCall, Flags: flags, Body: c.args, Headers: map[dbus.HeaderField]dbus.Variant{
		dbus.FieldDestination: dbus.MakeVariant(to), dbus.FieldPath: dbus.MakeVariant(path),
		dbus.FieldInterface: dbus.MakeVariant(c.intf), dbus.FieldMember: dbus.MakeVariant(c.method),
	}}
	if len(c.args) > 0 {
		m.Headers[dbus.FieldSignature] = dbus.MakeVariant(dbus.SignatureOf(c.args...))
	}
	var out bytes.Buffer
	if err := m.EncodeTo(&out, binary.LittleEndian); err != nil {
		return nil, err
	}
	binary.LittleEndian.PutUint32(out.Bytes()[8:], 1)
	return out.Bytes(), nil
}

// kind is a kind of call.
type kind struct {
	intf, method string
	args         []any
}

func kindOf(word string) (kind, error) {
	const standard = "org.freedesktop.DBus."
	switch word {
	case "use":
		return kind{name, "Use", []any{"none"}}, nil
	case "plan":
		return kind{name, "Plan", []any{"nosuch"}}, nil
	case "dry-run":
		return acquire(map[string]any{"dry-run": true}), nil
	case "acquire":
		return acquire(map[string]any{"partitions": uint32(60000)}), nil
	case "release":
		return kind{name, "Release", []any{strings.Repeat("x", 1000)}}, nil
	case "large":
		return kind{name, "Release", []any{strings.Repeat("x", 60<<10)}}, nil
	case "wait": // each call waits until its caller disconnects
		return acquire(map[string]any{"partitions": uint32(58), "wait": true}), nil
	case "account", "history", "usage", "queue":
		return kind{name, strings.ToUpper(word[:1]) + word[1:], nil}, nil
	case "managed":
		return kind{standard + "ObjectManager", "GetManagedObjects", nil}, nil
	case "get":
		return kind{standard + "Properties", "Get", []any{name, "Clients"}}, nil
	case "getall":
		return kind{standard + "Properties", "GetAll", []any{name}}, nil
	case "introspect":
		return kind{standard + "Introspectable", "Introspect", nil}, nil
	case "ping":
		return kind{standard + "Peer", "Ping", nil}, nil
	}
	return kind{}, fmt.Errorf("unknown call (found %q)", word)
}

func acquire(options map[string]any) kind {
	encoded := make(map[string]dbus.Variant)
	for key, value := range options {
		encoded[key] = dbus.MakeVariant(value)
	}
	return kind{name, "Acquire", []any{encoded}}
}
