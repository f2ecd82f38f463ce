package caller

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// child is a process that reads lines and writes lines.
type child struct {
	*exec.Cmd
	t   *testing.T
	in  io.WriteCloser
	out *bufio.Reader
}

func start(t *testing.T, name string, args ...string) *child {
	t.Helper()
	c := &child{Cmd: exec.Command(name, args...), t: t}
	c.Stderr = t.Output()
	var err error
	if c.in, err = c.StdinPipe(); err != nil {
		t.Fatal(err)
	}
	out, err := c.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	c.out = bufio.NewReader(out)
	if err := c.Start(); err != nil {
		t.Skipf("cannot start %s: %v", name, err)
	}
	t.Cleanup(func() { c.Process.Kill(); c.Wait() })
	return c
}

// says writes a line, if not empty, and waits for a reply.
func (c *child) says(line, want string) {
	c.t.Helper()
	if line != "" {
		if _, err := io.WriteString(c.in, line+"\n"); err != nil {
			c.t.Fatal(err)
		}
	}
	got, err := c.out.ReadString('\n')
	if strings.TrimSpace(got) != want {
		c.t.Fatalf("line of the child process: got %q, %v; want %q", got, err, want)
	}
}

func needRoot(t *testing.T) {
	t.Helper()
	if os.Getuid() != 0 {
		t.Skip("needs root, to become other users")
	}
}

func TestProcess_AliveUntilExit(t *testing.T) {
	c := start(t, "cat")
	uid := uint32(os.Getuid())
	p, err := Open("/proc", c.Process.Pid, uid)
	if err != nil {
		t.Fatal(err)
	}
	defer p.Close()
	if err := p.Check(); err != nil || !p.Alive() || p.Owner != uid {
		t.Errorf("process: got %+v, %v", p, err)
	}
	other := *p
	other.UID = uid + 1
	if err := other.Check(); err == nil || !strings.Contains(err.Error(), "more than one user") {
		t.Errorf("as another user's: %v", err)
	}
	c.Process.Kill()
	c.in.Close()
	if _, err := c.out.ReadString('\n'); err == nil {
		t.Fatal("the process still writes")
	}
	c.Wait()
	if err := p.Check(); !errors.Is(err, ErrEnded) || p.Alive() {
		t.Errorf("after its end: %v", err)
	}
	if _, err := Open("/proc", c.Process.Pid, uid); !errors.Is(err, ErrEnded) {
		t.Errorf("a process that has ended is opened: %v", err)
	}
}

// The number of a process that has ended may be reused. Then its /proc files are of another process.
func TestCheck_ReusedNumber(t *testing.T) {
	first, second := start(t, "cat"), start(t, "cat")
	p, err := Open("/proc", first.Process.Pid, uint32(os.Getuid()))
	if err != nil {
		t.Fatal(err)
	}
	defer p.Close()
	first.Process.Kill()
	first.Wait()
	p.PID = second.Process.Pid // as if the number were reused
	if err := p.Check(); !errors.Is(err, ErrEnded) {
		t.Errorf("another process is accepted: %v", err)
	}
}

func TestCheck_SetUIDProgram(t *testing.T) {
	needRoot(t)
	dir, err := os.MkdirTemp("/var/tmp", "setuid")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	program := filepath.Join(dir, "cat")
	cat, err := os.ReadFile("/bin/cat")
	for _, err := range []error{err, os.Chmod(dir, 0o755), os.WriteFile(program, cat, 0o755), os.Chmod(program, 0o755|os.ModeSetuid)} {
		if err != nil {
			t.Fatal(err)
		}
	}
	c := start(t, "setpriv", "--reuid=1000", "--regid=1000", "--clear-groups", "sh", "-c", "echo ready; read line; exec "+program)
	c.says("", "ready")
	p, err := Open("/proc", c.Process.Pid, 1000)
	if err != nil {
		t.Fatal(err)
	}
	defer p.Close()
	if err := p.Check(); err != nil {
		t.Fatal(err)
	}
	io.WriteString(c.in, "\n")
	c.says("hello", "hello")
	if err := p.Check(); err == nil || !strings.Contains(err.Error(), "more than one user (found uids [1000 0 0 0], want 1000 alone)") {
		t.Errorf("after the exec: %v", err)
	}
}

// The creator of a user namespace has all its subordinate IDs (subuid(5)) there.
func TestOwner_NamespaceCreator(t *testing.T) {
	needRoot(t)
	for name, tt := range map[string]struct {
		maker   string
		program string
		owner   uint32
	}{
		"of a user": {"1000", "sh", 1000},
		"nested":    {"1000", "unshare --user sh", 1000},
		"of root":   {"0", "sh", 100005},
	} {
		t.Run(name, func(t *testing.T) {
			holder := start(t, "setpriv", "--reuid="+tt.maker, "--regid="+tt.maker, "--clear-groups", "unshare", "--user", "sh", "-c", "echo made; read line")
			holder.says("", "made")
			for _, file := range []string{"uid_map", "gid_map"} {
				if err := os.WriteFile(fmt.Sprintf("/proc/%d/%s", holder.Process.Pid, file), []byte("0 100000 100\n"), 0); err != nil {
					t.Skipf("cannot map users: %v", err)
				}
			}
			args := append([]string{"--user", fmt.Sprintf("--target=%d", holder.Process.Pid), "--setuid=5", "--setgid=5"}, strings.Fields(tt.program)...)
			c := start(t, "nsenter", append(args, "-c", "echo ready; read line")...)
			c.says("", "ready")
			p, err := Open("/proc", c.Process.Pid, 100005)
			if err != nil {
				t.Fatal(err)
			}
			defer p.Close()
			if p.Owner != tt.owner {
				t.Errorf("owner %d, want %d", p.Owner, tt.owner)
			}
			if err := p.Check(); err != nil {
				t.Error(err)
			}
		})
	}
}
