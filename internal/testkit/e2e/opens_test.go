package e2e_test

import (
	"fmt"
	"slices"
	"strings"

	"dcm/internal/testkit/e2e"
)

// driverless returns an early unit that replaces the simulator's files in /dev, which are no
// device nodes, by nodes without a driver.
func driverless() e2e.Seed {
	seed := early("e2e-devices", "", "e2e-node.service", `#!/bin/sh
umount /dev/dri; umount /dev/kfd; rm -f /dev/kfd; mknod -m 666 /dev/kfd c 511 0
for i in $(seq 128 191); do mknod -m 666 /dev/dri/renderD$i c 226 $i; mknod -m 666 /dev/dri/card$((i-128)) c 226 $((i-128)); done
mkdir -p /sys/fs/bpf; mount -t bpf bpf /sys/fs/bpf
`)
	seed["/usr/local/bin/gpu-client"] = e2e.File{Content: []byte("#!/bin/sh\nexec sleep infinity\n"), Mode: 0o755}
	return seed
}

// early returns a unit that runs a script at every boot before dcm's units and after the units in
// after, on a node whose systemd can load device programs. condition is a line of the unit, or "".
func early(name, condition, after, script string) e2e.Seed {
	return e2e.Seed{
		e2e.DevicePrograms:             {},
		"/usr/local/lib/e2e-container": contained(),
		"/usr/local/lib/" + name:       {Mode: 0o755, Content: []byte(script)},
		"/etc/systemd/system/" + name + ".service": {Content: []byte(`[Unit]
DefaultDependencies=no
` + condition + `Requires=e2e-node.service
After=` + after + `
Before=sysinit.target

[Service]
Type=oneshot
RemainAfterExit=yes
ExecStart=/usr/local/lib/` + name + `
`)},
		"/etc/systemd/system/sysinit.target.wants/" + name + ".service": {Link: "../" + name + ".service"},
	}
}

// contained is a program that opens nodes in an unconfined container. It makes the nodes
// itself, with the device numbers of the named ones.
func contained() e2e.File {
	return e2e.File{Mode: 0o755, Content: []byte(`#!/bin/sh
[ "$(cat /proc/1/comm)" != systemd ] || exec systemd-run --quiet --pipe --wait --collect --slice=machine.slice --property=Delegate=yes unshare --mount --mount-proc --uts --ipc --net --pid --fork --cgroup "$0" $(stat --format='0x%t 0x%T' "$@")
mount -t tmpfs none /run
while [ $# -gt 0 ]; do
	mknod /run/node c "$1" "$2"
	case $( (exec 3<>/run/node) 2>&1) in
	*"No such device"*) echo yes ;;
	*"not permitted"*) echo no ;;
	*) echo "?" ;;
	esac
	rm /run/node
	shift 2
done
`)}
}

// opens returns the result of opening each node in the cgroup of a unit. The unit "" is a
// shell of root, "container" is one in its own namespaces.
func (m machine) opens(unit string, nodes ...string) string {
	m.t.Helper()
	if unit == "container" {
		return strings.Join(strings.Fields(m.run(`/usr/local/lib/e2e-container "$@"`, nodes...)), " ")
	}
	out := m.run(`[ -z "$1" ] || echo $$ >"/sys/fs/cgroup$(systemctl show -P ControlGroup "$1")/cgroup.procs"; shift
		for node; do
			case $( (exec 3<>"$node") 2>&1) in
			*"No such device"*) echo yes ;;
			*"not permitted"*) echo no ;;
			*) echo "?" ;;
			esac
		done`, append([]string{unit}, nodes...)...)
	return strings.Join(strings.Fields(out), " ")
}

// grabs starts a user's process that opens nodes repeatedly. The returned function ends it
// and returns the nodes that opened.
func (m machine) grabs(nodes ...string) func() []string {
	m.t.Helper()
	m.run(`rm -f /run/grabbed; touch /run/grabbed; chown nobody /run/grabbed
		systemd-run --quiet --collect --unit=grabber --property=User=nobody e2e-agent grab /run/grabbed "$@"`, nodes...)
	m.await("/run/grabbed", "ready")
	return func() []string {
		m.t.Helper()
		m.run("systemctl stop grabber")
		m.await("/run/grabbed", "rounds")
		return slices.DeleteFunc(strings.Fields(m.run("grep ^/dev /run/grabbed || :")), func(word string) bool { return word == "" })
	}
}

// opensFor returns the condition that a shell of root can open a node.
const opensFor = `(exec 3<>"$1") 2>&1 | grep -q "No such device"`

// mine returns the nodes that the links of a reservation lead to.
func (m machine) mine(name string) []string {
	m.t.Helper()
	return strings.Fields(m.run(`for link in /dev/dcm/"$1"/render*; do readlink "$link"; done`, name))
}

func (m machine) reserve(profile string, beta int) {
	m.t.Helper()
	m.put(settings, fmt.Sprintf(reserving, profile, beta))
}

// confinedTo expects that the three services can open only their own partitions, and that no
// other process can open those of alpha and gamma. leased are the nodes of exclusive leases.
func (m machine) confinedTo(alpha, beta int, leased ...string) {
	m.t.Helper()
	a, b := m.mine("alpha"), m.mine("beta-1")
	c := m.mine("gamma")
	if len(a) != alpha || len(b) != beta || len(c) != 1 {
		m.t.Fatalf("alpha has %s, beta@1 %s and gamma %s, want %d, %d and 1", a, b, c, alpha, beta)
	}
	free := m.run(`for i in $(seq 128 191); do echo /dev/dri/renderD$i; done | grep -vxF "$1" | head -1`, strings.Join(slices.Concat(a, b, c, leased), "\n"))
	yes, no := strings.Repeat("yes ", 64), strings.Repeat("no ", 64)
	for _, o := range []struct {
		unit  string
		nodes []string
		want  string
	}{
		{"alpha.service", a, yes}, {"alpha.service", b, no}, {"alpha.service", []string{free}, no}, {"alpha.service", []string{"/dev/kfd"}, yes},
		{"beta@1.service", b, yes}, {"beta@1.service", a, no},
		{"gamma.service", c, yes}, {"gamma.service", a, no}, {"gamma.service", b, no}, {"alpha.service", c, no}, {"beta@1.service", c, no},
		{"gpuagent.service", a, no}, {"gpuagent.service", b, yes}, {"gpuagent.service", []string{free}, yes}, {"gpuagent.service", c, no},
		{"", a, no}, {"", b, yes}, {"", c, no},
		{exporter, slices.Concat(a, b, c, []string{free}), yes}, // an observer
		{"container", slices.Concat(a, c), no}, {"container", slices.Concat(b, []string{free}), yes},
	} {
		want := strings.Join(strings.Fields(o.want)[:len(o.nodes)], " ")
		if got := m.opens(o.unit, o.nodes...); got != want {
			m.t.Errorf("%q opens %s: %s, want %s", o.unit, o.nodes, got, want)
		}
	}
}
