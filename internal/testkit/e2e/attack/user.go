package attack

import (
	"bufio"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path"
	"strconv"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// user is the identity of the process that requests a lease.
type user struct{ uid, gid, group uint32 }

// reuse makes one trial and returns its result. The user's process is killed when wait
// returns. wait may read the reply.
func (u user) reuse(wait func(net.Conn)) (result string, err error) {
	cmd, conn, err := u.request()
	if err != nil {
		return "", err
	}
	defer conn.Close()
	pid := cmd.Process.Pid
	c := &readConn{Conn: conn}
	wait(c)
	cmd.Process.Kill()
	cmd.Wait()
	victim, err := startAs(pid)
	if err != nil {
		return "", err
	}
	if victim == nil {
		return "PID taken", nil
	}
	defer victim.Wait()
	defer victim.Process.Kill()
	result = "granted before the exit"
	if !c.read {
		if err := awaitReply(bufio.NewReader(conn), acquireSerial); errors.Is(err, os.ErrDeadlineExceeded) {
			return "", err
		} else if err != nil {
			result = "refused"
		}
	}
	moved, err := unharmed(pid)
	if moved {
		result += ", and moved out of the lease"
	}
	return result, err
}

// request starts a process of the user and returns it, with the connection over which it
// has requested a lease.
func (u user) request() (*exec.Cmd, net.Conn, error) {
	pair, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return nil, nil, err
	}
	defer unix.Close(pair[0])
	child := os.NewFile(uintptr(pair[1]), "child")
	cmd := exec.Command("/proc/self/exe", "attack", "request")
	cmd.Stderr = os.Stderr
	cmd.ExtraFiles = []*os.File{child}
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: u.uid, Gid: u.gid, Groups: []uint32{u.group}}}
	err = cmd.Start()
	child.Close()
	if err != nil {
		return nil, nil, err
	}
	conn, err := requested(pair[0])
	if err != nil {
		cmd.Process.Kill()
		cmd.Wait()
		return nil, nil, err
	}
	return cmd, conn, nil
}

// requested receives a connection from [Request] over the socket, and returns when the
// request is sent.
func requested(socket int) (net.Conn, error) {
	oob := make([]byte, unix.CmsgSpace(4))
	_, n, _, _, err := unix.Recvmsg(socket, make([]byte, 1), oob, 0)
	if err != nil {
		return nil, err
	}
	list, err := unix.ParseSocketControlMessage(oob[:n])
	if err != nil || len(list) == 0 {
		return nil, errors.Join(errors.New("the child process sent no connection"), err)
	}
	fds, err := unix.ParseUnixRights(&list[0])
	if err != nil {
		return nil, err
	}
	file := os.NewFile(uintptr(fds[0]), "connection")
	defer file.Close()
	conn, err := net.FileConn(file)
	if err != nil {
		return nil, err
	}
	err = conn.SetReadDeadline(time.Now().Add(time.Minute))
	if err == nil {
		_, err = unix.Write(socket, []byte{0})
	}
	if err == nil {
		_, err = unix.Read(socket, make([]byte, 1))
	}
	if err != nil {
		return nil, errors.Join(err, conn.Close())
	}
	return conn, nil
}

// unharmed reports whether the process of root was moved out of a lease. If it was killed or
// is in a lease, that is an error.
func unharmed(pid int) (moved bool, err error) {
	// A killed process is a zombie, because it is a child of this one.
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil || strings.Contains(string(status), "State:\tZ") {
		return false, fmt.Errorf("process %d of root was killed: %v", pid, err)
	}
	own, err := os.ReadFile("/proc/self/cgroup")
	if err != nil {
		return false, err
	}
	its, err := os.ReadFile(fmt.Sprintf("/proc/%d/cgroup", pid))
	if err != nil {
		return false, err
	}
	switch cgroup := unified(its); {
	case cgroup == unified(own):
		return false, nil
	case path.Dir(cgroup) == path.Dir(unified(own)) && strings.HasPrefix(path.Base(cgroup), "moved-"):
		// systemd moves no process back into a unit without Delegate=.
		return true, nil
	}
	return false, fmt.Errorf("process %d of root is still in %s", pid, its)
}

// unified returns the path in the unified hierarchy, from the text of /proc/PID/cgroup.
func unified(list []byte) string {
	for line := range strings.Lines(string(list)) {
		if path, ok := strings.CutPrefix(line, "0::"); ok {
			return strings.TrimSpace(path)
		}
	}
	return ""
}

// readConn is a connection that records whether it was read from.
type readConn struct {
	net.Conn
	read bool
}

func (c *readConn) Read(b []byte) (int, error) {
	c.read = true
	return c.Conn.Read(b)
}

// startAs starts a process that gets the PID. It returns nil if another process got it.
func startAs(pid int) (*exec.Cmd, error) {
	for range 5 {
		if err := os.WriteFile("/proc/sys/kernel/ns_last_pid", []byte(strconv.Itoa(pid-1)), 0); err != nil {
			return nil, err
		}
		cmd := exec.Command("sleep", "infinity")
		if err := cmd.Start(); err != nil {
			return nil, err
		}
		if cmd.Process.Pid == pid {
			return cmd, nil
		}
		cmd.Process.Kill()
		cmd.Wait()
	}
	return nil, nil
}
