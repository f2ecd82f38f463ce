package dbusconn

import (
	"bufio"
	"encoding/binary"
	"io"
	"iter"
)

// largest is the maximum size of a received signal, in bytes. Any user can send messages of up
// to 32 MiB through a bus, and the library needs several times the size to decode one: the kernel would
// kill the process for its memory use. The [Receiver] limits the size of calls. Replies to dcm's own calls
// have no limit.
const largest = 4 << 20

// Filter reports whether the receiver handles a signal. The library decodes a signal before it looks for a
// receiver, and PID 1 sends every signal to each private connection. The filter is called by one goroutine.
type Filter func(path, iface, member string) bool

// next returns the length of the next message for the library. It gives method calls to the receiver. It drops
// signals that are too large or that the filter rejects, without a reply to their senders.
func (l *line) next() (int, error) {
	for {
		n, drop, err := measure(l.in)
		if err != nil {
			return n, err
		}
		l.files.assign(l.in, n)
		serve, isCall := l.received(n)
		if !isCall && !drop && !l.unhandled() {
			return n, nil
		}
		if serve == nil {
			dropped, err := l.in.Discard(n)
			l.files.handed += int64(dropped)
			if err != nil {
				return 0, err
			}
			continue
		}
		message := make([]byte, n)
		read, err := io.ReadFull(l.in, message)
		l.files.handed += int64(read)
		if err != nil {
			return 0, err
		}
		serve(message)
	}
}

// The fixed part of a message's header (D-Bus specification, "Message Format"): byte order,
// type, flags, version, length of the body, serial, and the length of the fields, which
// are filled up to eight bytes.
const (
	fixed = 16
	order = 0
	kind  = 1
	flags = 2
	body  = 4
	own   = 8 // the message's own serial
	field = 12

	call, answer, signal = 1, 2, 4
)

// unhandled reports whether the next message is a signal that the filter rejects.
func (l *line) unhandled() bool {
	if l.filter == nil {
		return false
	}
	head := header(l.in, signal)
	if head == nil {
		return false
	}
	var path, iface, member string
	for f := range fieldsOf(head) {
		switch f.code {
		case pathField:
			path = string(f.text)
		case interfaceField:
			iface = string(f.text)
		case memberField:
			member = string(f.text)
		}
	}
	return member != "" && !l.filter(path, iface, member)
}

// header returns the fixed part of the next message with the fields, nil if the message is of another type, or
// if they do not fit into the buffer.
func header(in *bufio.Reader, of byte) []byte {
	head, err := in.Peek(fixed)
	if err != nil || head[kind] != of {
		return nil
	}
	size := fixed + int(orderOf(head).Uint32(head[field:]))
	if size > in.Size() || size < fixed {
		return nil
	}
	if head, err = in.Peek(size); err != nil {
		return nil
	}
	return head
}

func measure(in *bufio.Reader) (n int, drop bool, err error) {
	head, err := in.Peek(fixed)
	if len(head) < fixed {
		return len(head), false, err // the library reports the end of the stream
	}
	o := orderOf(head)
	fields := (int(o.Uint32(head[field:])) + 7) &^ 7
	n = fixed + fields + int(o.Uint32(head[body:]))
	return n, n > largest && head[kind] == signal, nil
}

func orderOf(head []byte) binary.ByteOrder {
	if head[order] == 'B' {
		return binary.BigEndian
	}
	return binary.LittleEndian
}

// The codes of the header fields that are read.
const (
	pathField      = 1
	interfaceField = 2
	memberField    = 3
	replySerial    = 5
	senderField    = 7
	unixFDs        = 9
)

// headerField is a field of a message's header: a number, or the text of a string or path.
type headerField struct {
	code   byte
	number uint32
	text   []byte
}

// number returns a numeric field of a message's header. head is the fixed part with the fields. ok
// is false if there is no such field, or the header is malformed.
func number(head []byte, code byte) (value uint32, ok bool) {
	for f := range fieldsOf(head) {
		if f.code == code && f.text == nil {
			return f.number, true
		}
	}
	return 0, false
}

// fieldsOf returns the fields of a message's header up to the first malformed one, without signatures.
func fieldsOf(head []byte) iter.Seq[headerField] {
	return func(yield func(headerField) bool) {
		if len(head) < fixed {
			return
		}
		o := orderOf(head)
		end := fixed + int(o.Uint32(head[field:]))
		for at := fixed; end <= len(head); {
			at = (at + 7) &^ 7
			if at+4 > end || head[at+1] != 1 || head[at+3] != 0 { // a signature of one character
				return
			}
			f, kind := headerField{code: head[at]}, head[at+2]
			at += 4
			switch kind {
			case 'u', 's', 'o':
				at = (at + 3) &^ 3
				if at+4 > end {
					return
				}
				f.number = o.Uint32(head[at:])
				at += 4
				if kind != 'u' {
					if int64(f.number) >= int64(end-at) {
						return
					}
					f.text = head[at : at+int(f.number)]
					at += int(f.number) + 1
				}
			case 'g':
				if at >= end {
					return
				}
				at += int(head[at]) + 2
				continue
			default:
				return
			}
			if !yield(f) {
				return
			}
		}
	}
}
