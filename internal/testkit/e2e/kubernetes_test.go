package e2e_test

import (
	"bufio"
	"fmt"
	"maps"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"dcm/internal/gpu/nvml/standin"
	"dcm/internal/testkit/e2e"
)

// kubelet is a stand-in for the unit of the kubelet. It records whether the GPUs were
// partitioned at its start.
const kubelet = `[Service]
ExecStart=sh -c 'cat /sys/bus/pci/devices/0000:05:00.0/current_compute_partition >/run/kubelet.saw; exec sleep infinity'

[Install]
WantedBy=multi-user.target
`

// TestKubernetes runs the tests of the agent's module with the dcm of a simulated node of each vendor. The
// agent and the simulated cluster are outside of the container.
func TestKubernetes(t *testing.T) {
	if os.Getenv("DCM_KUBERNETES") == "" {
		t.Skip("a cluster is tried by make test-kubernetes, which sets DCM_KUBERNETES")
	}
	requireContainers(t)
	recipes := suites()
	trixie, p := recipes[len(recipes)-1], buildProduct(t)
	t.Run("AMD", func(t *testing.T) {
		m := installWith(t, trixie, p, e2e.Seed{
			"/etc/systemd/system/kubelet.service":                         {Content: []byte(kubelet)},
			"/etc/systemd/system/multi-user.target.wants/kubelet.service": {Link: "../kubelet.service"},
		})
		m.put(settings, selecting("cpx-fast")+agentsOn)
		m.run("systemctl restart dcm")
		m.opened("active")
		m.used()
		m.driven("TestOneHost", map[string]string{
			"hang":   stoppable + "dcm-sim fault --gpu 0000:e5:00.0 --op compute --hang forever --times always",
			"linger": "dcm-sim fault --gpu 0000:e5:00.0 --op compute --hang 5s",
		})
		m.dividedBeforeKubelet()
		t.Log(m.run("dcm report --list; dcm status || :"))
	})
	t.Run("NVIDIA", func(t *testing.T) { agentsOfNVIDIA(t, trixie, p) })
}

// used measures dcm use, with which the durations of the agent's changes are compared. The
// kubelet continues to run.
func (m machine) used() {
	m.t.Helper()
	before := m.units("kubelet.service")
	var took []int
	for range 3 {
		for _, profile := range []string{"spx-fast", "cpx-fast"} {
			text := m.run(`begun=$(date +%s%N); dcm use "$1" >/dev/null; echo $((($(date +%s%N) - begun) / 1000000))`, profile)
			n, err := strconv.Atoi(text)
			if err != nil {
				m.t.Fatal(err)
			}
			took = append(took, n)
		}
	}
	m.untouched(before)
	slices.Sort(took)
	m.t.Logf("dcm use: median %d ms of %v", took[len(took)/2], took)
}

// dividedBeforeKubelet expects that the GPUs were partitioned before the kubelet was started.
func (m machine) dividedBeforeKubelet() {
	m.t.Helper()
	if after := m.show("kubelet.service", "After")["After"]; !strings.Contains(after, "dcm-apply.service") {
		m.t.Errorf("order of the kubelet: want dcm-apply, got %s", after)
	}
	apply, unit := m.show("dcm-apply.service", "ActiveEnterTimestampMonotonic"), m.show("kubelet.service", "ExecMainStartTimestampMonotonic")
	done, _ := strconv.Atoi(apply["ActiveEnterTimestampMonotonic"])
	begun, _ := strconv.Atoi(unit["ExecMainStartTimestampMonotonic"])
	m.t.Logf("dcm-apply.service ended at %d µs and the kubelet started at %d µs of this boot; state of the GPUs then: %s", done, begun, m.run("cat /run/kubelet.saw"))
	if done == 0 || begun < done {
		m.t.Error("start of the kubelet: want it after the change")
	}
}

// stoppable shortens the time until a reboot kills a change that hangs.
const stoppable = `mkdir -p /run/systemd/system/dcm-apply.service.d
printf '[Service]\nTimeoutStopSec=2s\n' >/run/systemd/system/dcm-apply.service.d/stop.conf
systemctl daemon-reload
`

// driven runs a test of the agent's module with this machine's dcm. The test can request a reboot of the
// machine, a kill of dcm, and these commands: hang makes the next change hang until a reboot, linger for
// some time, or until "go on".
func (m machine) driven(test string, commands map[string]string) {
	m.t.Helper()
	l, err := net.Listen("unix", filepath.Join(m.t.TempDir(), "asked"))
	if err != nil {
		m.t.Fatal(err)
	}
	defer l.Close()
	asked := make(chan net.Conn)
	go func() {
		defer close(asked)
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			asked <- conn
		}
	}()
	cmd := exec.CommandContext(m.t.Context(), "go", "-C", "../../../cmd/dcm-kubernetes", "test", "-count=1", "-timeout=30m", "-v", "-run", test, "./internal/real")
	cmd.Env = append(os.Environ(), "DCM_SOCKET="+m.agentSocket(), "DCM_HOST="+l.Addr().String())
	done := make(chan error, 1)
	var out []byte
	go func() {
		var err error
		out, err = cmd.CombinedOutput()
		done <- err
	}()
	for {
		select {
		case conn := <-asked:
			m.asked(conn, commands)
		case err := <-done:
			m.t.Logf("%s", out)
			if err != nil {
				m.t.Fatal(err)
			}
			return
		}
	}
}

func (m machine) asked(conn net.Conn, commands map[string]string) {
	m.t.Helper()
	defer conn.Close()
	line, err := bufio.NewReader(conn).ReadString('\n')
	if err != nil {
		m.t.Fatal(err)
	}
	switch what := strings.TrimSpace(line); what {
	case "reboot":
		m.reboot()
		m.opened("active")
	case "kill":
		m.run("systemctl kill --signal=KILL dcm dcm-apply dcm-agent || :")
	case "hang", "linger", "go on":
		m.run(commands[what])
	default:
		m.t.Fatalf("unknown request %q", what)
	}
	fmt.Fprintln(conn, m.agentSocket())
}

// agentsOfNVIDIA is the NVIDIA part of TestKubernetes. The agent can read and partition NVIDIA GPUs, with
// the drop-in that the generator adds for them.
func agentsOfNVIDIA(t *testing.T, recipe e2e.Recipe, p product) {
	lib, err := standin.Build(t.Context(), t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	// A fault ends with the boot.
	const faults = "/etc/systemd/system/e2e-node.service.d/faults.conf"
	seed := e2e.Seed{faults: {Content: []byte("[Service]\nExecStartPre=-sed -i /^knob/d " + e2e.MIGState + "\n")}}
	maps.Copy(seed, driverlessNVIDIA())
	m := nvidiaNode(t, recipe, p, "h100-8", lib, seed)
	m.put(settings, geometries("off", of80())+agentsOn)
	m.run("systemctl restart dcm")
	m.opened("active")
	devices := m.show("dcm-agent.service", "DeviceAllow", "DropInPaths")
	if !strings.Contains(devices["DropInPaths"], "/dcm-agent.service.d/50-dcm.conf") || !strings.Contains(m.run("systemctl cat dcm-agent"), "DeviceAllow=char-195 rw") {
		t.Errorf("devices of dcm-agent.service: %s", devices)
	}
	const hang = "echo knob hang nvmlDeviceCreateGpuInstanceWithPlacement >>" + e2e.MIGState
	m.driven("TestOneHost", map[string]string{
		"hang":   stoppable + hang,
		"linger": hang,
		"go on":  "sed -i /^knob/d " + e2e.MIGState,
	})
	t.Log(m.run("dcm report --list; dcm status || :"))
}

func (m machine) agentSocket() string {
	m.t.Helper()
	return fmt.Sprintf("/proc/%d/root%s", m.process(), agentsSocket)
}

// process returns the PID on the host of a process in the container. By /proc/PID/root the test
// reaches the container's files and sockets.
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
