package dbusconn

import (
	"bufio"
	"encoding/binary"
)

// largest is the maximum size of a received call or signal, in bytes. Any user can send messages of up
// to 32 MiB through a bus, and the library needs several times the size to decode one: the kernel would
// kill the process for its memory use. A call with the longest possible command line (2 MiB) fits.
// Replies to dcm's own calls have no limit.
const largest = 4 << 20

// begin returns the length of the next message. It drops messages that are too large, without a reply
// to their senders.
func (l *line) begin() (int, error) {
	for {
		n, drop, err := measure(l.in)
		if err != nil {
			return n, err
		}
		l.files.assign(l.in, n)
		if !drop {
			return n, nil
		}
		dropped, err := l.in.Discard(n)
		l.files.handed += int64(dropped)
		if err != nil {
			return 0, err
		}
	}
}

// The fixed part of a message's header (D-Bus specification, "Message Format"): byte order,
// type, flags, version, length of the body, serial, and the length of the fields, which
// are filled up to eight bytes.
const (
	fixed = 16
	order = 0
	kind  = 1
	body  = 4
	field = 12

	call, answer, signal = 1, 2, 4
)

func measure(in *bufio.Reader) (n int, drop bool, err error) {
	head, err := in.Peek(fixed)
	if len(head) < fixed {
		return len(head), false, err // the library reports the end of the stream
	}
	o := orderOf(head)
	fields := (int(o.Uint32(head[field:])) + 7) &^ 7
	n = fixed + fields + int(o.Uint32(head[body:]))
	return n, n > largest && (head[kind] == call || head[kind] == signal), nil
}

func orderOf(head []byte) binary.ByteOrder {
	if head[order] == 'B' {
		return binary.BigEndian
	}
	return binary.LittleEndian
}

// The header fields that are read.
const (
	replySerial = 5
	unixFDs     = 9
)

// number returns a numeric field of a message's header. head is the fixed part with the fields. ok
// is false if there is no such field, or the header is malformed.
func number(head []byte, code byte) (value uint32, ok bool) {
	if len(head) < fixed {
		return 0, false
	}
	o := orderOf(head)
	end := fixed + int(o.Uint32(head[field:]))
	for at := fixed; end <= len(head); {
		at = (at + 7) &^ 7
		if at+4 > end || head[at+1] != 1 || head[at+3] != 0 { // a signature of one character
			return 0, false
		}
		which, kind := head[at], head[at+2]
		at += 4
		switch kind {
		case 'u', 's', 'o':
			at = (at + 3) &^ 3
			if at+4 > end {
				return 0, false
			}
			n := o.Uint32(head[at:])
			if kind == 'u' && which == code {
				return n, true
			}
			at += 4
			if kind != 'u' {
				if int64(n) >= int64(end-at) {
					return 0, false
				}
				at += int(n) + 1
			}
		case 'g':
			if at >= end {
				return 0, false
			}
			at += int(head[at]) + 2
		default:
			return 0, false
		}
	}
	return 0, false
}
