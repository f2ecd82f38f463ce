package e2e_test

import (
	"fmt"
	"net"
	"os"
	"os/exec"
	"testing"

	"golang.org/x/sys/unix"
)

// TestKubernetes has the agent of a cluster drive the dcm of a simulated node. The
// cluster is outside of the container: its tests are those of the agent's own module.
func TestKubernetes(t *testing.T) {
	if os.Getenv("DCM_KUBERNETES") == "" {
		t.Skip("a cluster is tried by make test-kubernetes, which sets DCM_KUBERNETES")
	}
	requireContainers(t)
	recipes := suites()
	m := installWith(t, recipes[len(recipes)-1], buildProduct(t), nil)
	m.put(settings, selecting("cpx-fast")+agentsOn)
	m.run("systemctl restart dcm")
	m.opened("active")
	cmd := exec.CommandContext(t.Context(), "go", "-C", "../../cmd/dcm-kubernetes", "test", "-count=1", "-timeout=0", "-v", "-run", "TestOneHost", "./internal/real")
	cmd.Env = append(os.Environ(), fmt.Sprintf("DCM_SOCKET=/proc/%d/root%s", m.process(), agentsSocket))
	out, err := cmd.CombinedOutput()
	t.Logf("%s", out)
	if err != nil {
		t.Fatal(err)
	}
	t.Log(m.run("dcm report --list; dcm status || :"))
}

// process is one of the container's, as it is numbered out here: by it its files are
// reached, sockets too.
func (m machine) process() int32 {
	m.t.Helper()
	conn, err := net.Dial("unix", m.Shared("agent.sock"))
	if err != nil {
		m.t.Fatal(err)
	}
	defer conn.Close()
	raw, err := conn.(*net.UnixConn).SyscallConn()
	if err != nil {
		m.t.Fatal(err)
	}
	var peer *unix.Ucred
	var failed error
	err = raw.Control(func(fd uintptr) { peer, failed = unix.GetsockoptUcred(int(fd), unix.SOL_SOCKET, unix.SO_PEERCRED) })
	if err != nil || failed != nil {
		m.t.Fatal(err, failed)
	}
	return peer.Pid
}
