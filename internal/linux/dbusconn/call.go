package dbusconn

import (
	"bytes"
	"encoding/binary"
	"fmt"

	"github.com/godbus/dbus/v5"
)

// Header describes a received method call.
type Header struct {
	Sender string // the caller's unique name; the bus sets it
	Serial uint32
	Flags  dbus.Flags
	Size   int // of the whole message, in bytes
}

// Receiver receives the method calls of a connection, before they are read. The reading goroutine calls it
// and the function that it returns, so both must return immediately: the replies to dcm's own calls
// arrive on the same connection. A nil function drops the call. Otherwise the function gets
// the whole message.
type Receiver func(Header) (serve func(message []byte))

// received gives the header of the next message to the receiver, if the message is a call. It drops a call
// whose header does not fit into the buffer.
func (l *line) received(size int) (serve func([]byte), isCall bool) {
	first, err := l.in.Peek(fixed)
	if err != nil || first[kind] != call {
		return nil, false
	}
	head := header(l.in, call)
	if head == nil || l.receive == nil {
		return nil, true
	}
	h := Header{Serial: orderOf(head).Uint32(head[own:]), Flags: dbus.Flags(head[flags]), Size: size}
	for f := range fieldsOf(head) {
		if f.code == senderField {
			h.Sender = string(f.text)
		}
	}
	return l.receive(h), true
}

// Encoded is the encoded body of a message. It can be sent several times.
type Encoded struct {
	signature dbus.Signature
	data      []byte
}

// Len returns the size of the body in bytes.
func (b Encoded) Len() int { return len(b.data) }

// Encode encodes values as the body of a message.
func Encode(values ...any) (Encoded, error) {
	if len(values) == 0 {
		return Encoded{}, nil
	}
	signature := dbus.SignatureOf(values...)
	message := dbus.Message{Type: dbus.TypeMethodReply, Headers: map[dbus.HeaderField]dbus.Variant{
		dbus.FieldReplySerial: dbus.MakeVariant(uint32(1)), dbus.FieldSignature: dbus.MakeVariant(signature),
	}, Body: values}
	var out bytes.Buffer
	if err := message.EncodeTo(&out, binary.LittleEndian); err != nil {
		return Encoded{}, err
	}
	size := int(binary.LittleEndian.Uint32(out.Bytes()[body:]))
	return Encoded{signature, bytes.Clone(out.Bytes()[out.Len()-size:])}, nil
}

// Reply sends the reply to a call. It does nothing if the caller expects none.
func (c *Conn) Reply(to Header, b Encoded) error {
	return c.reply(to, b, dbus.Message{Type: dbus.TypeMethodReply, Headers: map[dbus.HeaderField]dbus.Variant{}})
}

// ReplyError sends an error as the reply to a call. It does nothing if the caller expects no reply.
func (c *Conn) ReplyError(to Header, name, text string) error {
	b, err := Encode(text)
	if err != nil {
		return err
	}
	return c.reply(to, b, dbus.Message{Type: dbus.TypeError, Headers: map[dbus.HeaderField]dbus.Variant{dbus.FieldErrorName: dbus.MakeVariant(name)}})
}

// firstReply is the serial of the first reply. The serials of other messages, which the library counts
// from 1, do not get so large.
const firstReply = 1 << 31

func (c *Conn) reply(to Header, b Encoded, m dbus.Message) error {
	if to.Flags&dbus.FlagNoReplyExpected != 0 {
		return nil
	}
	m.Flags = dbus.FlagNoReplyExpected
	m.Headers[dbus.FieldReplySerial] = dbus.MakeVariant(to.Serial)
	if to.Sender != "" {
		m.Headers[dbus.FieldDestination] = dbus.MakeVariant(to.Sender)
	}
	if len(b.data) > 0 {
		m.Headers[dbus.FieldSignature] = dbus.MakeVariant(b.signature)
	}
	var out bytes.Buffer
	if err := m.EncodeTo(&out, binary.LittleEndian); err != nil {
		return fmt.Errorf("cannot encode a reply: %w", err)
	}
	binary.LittleEndian.PutUint32(out.Bytes()[body:], uint32(len(b.data)))
	binary.LittleEndian.PutUint32(out.Bytes()[own:], firstReply|c.line.replies.Add(1))
	out.Write(b.data)
	_, err := c.line.Write(out.Bytes())
	return err
}
