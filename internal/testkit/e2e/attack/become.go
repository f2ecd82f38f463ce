package attack

import (
	"fmt"
	"net"
	"os"
	"strconv"
	"syscall"

	"github.com/godbus/dbus/v5"
	"golang.org/x/sys/unix"
)

// Become requests a lease of this many partitions, waits until the request is queued, and executes another
// program with the connection open.
func Become(partitions string, program []string) error {
	a, err := connect()
	if err != nil {
		return err
	}
	n, err := strconv.Atoi(partitions)
	if err != nil {
		return err
	}
	if err := a.acquire(map[string]dbus.Variant{"wait": dbus.MakeVariant(true), "partitions": dbus.MakeVariant(uint32(n))}); err != nil {
		return err
	}
	for {
		m, err := dbus.DecodeMessage(a.in)
		if err != nil {
			return err
		}
		if m.Type == dbus.TypeError {
			return fmt.Errorf("%v", m.Body)
		}
		if m.Headers[dbus.FieldMember].Value() == "Queued" {
			break
		}
	}
	file, err := a.Conn.(*net.UnixConn).File()
	if err != nil {
		return err
	}
	if _, err := unix.FcntlInt(file.Fd(), unix.F_SETFD, 0); err != nil { // clears FD_CLOEXEC
		return err
	}
	return syscall.Exec(program[0], program, os.Environ())
}
