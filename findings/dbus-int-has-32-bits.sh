#!/bin/bash
# Guess:     a Go int, which has 64 bits on amd64, is sent over D-Bus as a 64-bit integer.
# Behaviour: it is sent with the type i, of 32 bits, and its upper bits are dropped without an error. 192 GiB arrives
#            as 0, and 80 GB as a negative number. int64 arrives unchanged.
# Versions seen: github.com/godbus/dbus/v5 v5.2.4
# Met by:    services that publish the memory of a GPU in bytes as a property or in a signal. A test with small numbers
#            passes.
# Fails:     if the output is not that at the end of this script, which was seen with these versions.
set -euo pipefail
dir=$(mktemp -d)
# shellcheck source=findings/lib.bash
. "$(dirname "$0")/lib.bash"

go_module github.com/godbus/dbus/v5@v5.2.4
cat >"$dir/main.go" <<'END'
package main

import (
	"bytes"
	"encoding/binary"
	"fmt"

	"github.com/godbus/dbus/v5"
)

// send returns the value that the receiver of a signal sees.
func send(value any) any {
	var wire bytes.Buffer
	signal := dbus.Message{
		Type: dbus.TypeSignal,
		Headers: map[dbus.HeaderField]dbus.Variant{
			dbus.FieldPath:      dbus.MakeVariant(dbus.ObjectPath("/gpu")),
			dbus.FieldInterface: dbus.MakeVariant("com.example.GPU"),
			dbus.FieldMember:    dbus.MakeVariant("Memory"),
			dbus.FieldSignature: dbus.MakeVariant(dbus.SignatureOf(value)),
		},
		Body: []any{value},
	}
	if err := signal.EncodeTo(&wire, binary.LittleEndian); err != nil {
		return err
	}
	received, err := dbus.DecodeMessage(&wire)
	if err != nil {
		return err
	}
	return received.Body[0]
}

func main() {
	for _, value := range []any{192 << 30, 80_000_000_000, int64(192 << 30)} {
		received := send(value)
		fmt.Printf("%T %v arrives as %T %v\n", value, value, received, received)
	}
}
END
expect <<'END' || exit 1
int 206158430208 arrives as int32 0
int 80000000000 arrives as int32 -1604378624
int64 206158430208 arrives as int64 206158430208
END
