package peer

import (
	"bufio"
	"encoding/binary"
)

// largest is how large a call or a signal may be. The library takes a message in as a
// whole before anybody is asked whether it makes sense, in many times its size, and a bus
// passes on what anybody sends, up to 32 MiB: the receiver would be killed for want of
// memory. A command line of 2 MiB, the most that Linux takes, has room. What dcm asks for
// may be as large as it is.
const largest = 4 << 20

// begin returns the length of the next message that is not too large. Those that are, are
// dropped; who has called waits in vain, as for one that is dead.
func begin(in *bufio.Reader) (int, error) {
	for {
		n, drop, err := measure(in)
		if err != nil || !drop {
			return n, err
		}
		if _, err := in.Discard(n); err != nil {
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

	call, signal = 1, 4
)

func measure(in *bufio.Reader) (n int, drop bool, err error) {
	head, err := in.Peek(fixed)
	if len(head) < fixed {
		return len(head), false, err // an end is the library's to tell of
	}
	var o binary.ByteOrder = binary.LittleEndian
	if head[order] == 'B' {
		o = binary.BigEndian
	}
	fields := (int(o.Uint32(head[field:])) + 7) &^ 7
	n = fixed + fields + int(o.Uint32(head[body:]))
	return n, n > largest && (head[kind] == call || head[kind] == signal), nil
}
