package main

import (
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"
)

// grab opens the nodes repeatedly until SIGTERM. It writes to the file "ready" after the first
// round, the name of each node when it opens for the first time, and finally "rounds" with
// their number. It keeps opened nodes open. ENXIO counts as opened: the cgroups permitted it,
// and there is no driver.
func grab(path string, nodes []string) error {
	out, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_APPEND, 0o644)
	if err != nil {
		return err
	}
	defer out.Close()
	end := make(chan os.Signal, 1)
	signal.Notify(end, unix.SIGTERM)
	opened := make(map[string]bool)
	for rounds := 1; ; rounds++ {
		for _, node := range nodes {
			if opened[node] {
				continue
			}
			if _, err := unix.Open(node, unix.O_RDWR|unix.O_CLOEXEC|unix.O_NONBLOCK, 0); err == nil || err == unix.ENXIO {
				opened[node] = true
				fmt.Fprintln(out, node)
			}
		}
		if rounds == 1 {
			fmt.Fprintln(out, "ready")
		}
		select {
		case <-end:
			_, err := fmt.Fprintln(out, "rounds", rounds)
			return err
		default:
		}
	}
}

// pounce waits until an exclusive lease begins, which all users can see in systemd's
// directory, and immediately opens the nodes. It writes "opened" or "denied" for each, and
// "done", and waits for a signal.
func pounce(path, dir string, nodes []string) error {
	fd, err := unix.InotifyInit1(unix.IN_CLOEXEC)
	if err != nil {
		return err
	}
	if _, err := unix.InotifyAddWatch(fd, dir, unix.IN_CREATE|unix.IN_MOVED_TO); err != nil {
		return err
	}
	if err := os.WriteFile(path, []byte("ready\n"), 0o644); err != nil {
		return err
	}
	buf := make([]byte, 64<<10)
	for {
		n, err := unix.Read(fd, buf)
		if err != nil {
			return err
		}
		if strings.Contains(string(buf[:n]), "dcm-exclusive-") {
			break
		}
	}
	var said strings.Builder
	for _, node := range nodes {
		result := "opened"
		if _, err := unix.Open(node, unix.O_RDWR|unix.O_CLOEXEC|unix.O_NONBLOCK, 0); err != nil {
			result = "denied"
		}
		fmt.Fprintln(&said, result, node)
	}
	said.WriteString("done\n")
	if err := os.WriteFile(filepath.Clean(path), []byte(said.String()), 0o644); err != nil {
		return err
	}
	for {
		if err := unix.Pause(); err != unix.EINTR {
			return err
		}
	}
}
