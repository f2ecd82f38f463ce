package main

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"strings"

	"golang.org/x/sys/unix"

	"dcm/internal/testkit/sim"
)

// broadcaster sends uevents as the kernel does for real devices, in every network namespace
// of the processes here. Root may send to one namespace at a time (uevent_net_rcv_skb).
type broadcaster struct {
	queue  chan sim.Uevent
	stderr io.Writer
}

// newBroadcaster starts to send the queued events. Its thread changes its network namespace
// and ends with the process.
func newBroadcaster(stderr io.Writer) *broadcaster {
	b := &broadcaster{make(chan sim.Uevent, 4096), stderr}
	go func() {
		runtime.LockOSThread()
		for u := range b.queue {
			batch := [][]byte{request(u)}
			for range len(b.queue) {
				batch = append(batch, request(<-b.queue))
			}
			if err := everywhere(batch); err != nil {
				fmt.Fprintf(b.stderr, "dcm-sim: cannot send kernel events: %v\n", err)
			}
		}
	}()
	return b
}

// send queues an event. A full queue looks to a listener like an overflow of its own.
func (b *broadcaster) send(u sim.Uevent) {
	select {
	case b.queue <- u:
	default:
	}
}

// request returns a netlink message with the event in the kernel's form.
func request(u sim.Uevent) []byte {
	text := fmt.Sprintf("%[1]s@%[2]s\x00ACTION=%[1]s\x00DEVPATH=%[2]s\x00SUBSYSTEM=%[3]s\x00", u.Action, u.Path, u.Subsystem)
	m := binary.NativeEndian.AppendUint32(nil, uint32(unix.NLMSG_HDRLEN+len(text)))
	m = binary.NativeEndian.AppendUint16(m, unix.NLMSG_MIN_TYPE)
	m = binary.NativeEndian.AppendUint16(m, unix.NLM_F_REQUEST)
	return append(append(m, make([]byte, 8)...), text...)
}

func everywhere(batch [][]byte) error {
	links, err := filepath.Glob("/proc/[0-9]*/ns/net")
	if err != nil {
		return err
	}
	done := make(map[string]bool)
	var errs []error
	for _, link := range links {
		name, err := os.Readlink(link)
		if err != nil || done[name] { // it has ended
			continue
		}
		done[name] = true
		if err := inNamespace(link, batch); err != nil && !errors.Is(err, fs.ErrNotExist) {
			errs = append(errs, fmt.Errorf("%s: %w", strings.TrimPrefix(link, "/proc/"), err))
		}
	}
	return errors.Join(errs...)
}

func inNamespace(link string, batch [][]byte) error {
	ns, err := os.Open(link)
	if err != nil {
		return err
	}
	defer ns.Close()
	if err := unix.Setns(int(ns.Fd()), unix.CLONE_NEWNET); err != nil {
		return err
	}
	fd, err := unix.Socket(unix.AF_NETLINK, unix.SOCK_RAW|unix.SOCK_CLOEXEC, unix.NETLINK_KOBJECT_UEVENT)
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	for _, m := range batch {
		if err := unix.Sendto(fd, m, 0, &unix.SockaddrNetlink{Family: unix.AF_NETLINK}); err != nil {
			return err
		}
	}
	return nil
}
