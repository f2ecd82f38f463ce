package vm_test

import (
	"fmt"
	"strconv"
	"strings"
)

const forShares = `[leases]
shares = 4
[[reservation]]
unit = "notebook@"
partitions = 1
share = 3
`

// sharer is a unit that shares a partition.
type sharer struct {
	m            machine
	cgroup, node string
}

// sharedMemory: the kernel enforces the memory limits of leases and services that share a partition. No restart
// of the daemon or of systemd removes them.
func sharedMemory(m machine) {
	m.expect("sort /sys/fs/cgroup/dmem.capacity | xargs", fmt.Sprintf("drm/0000:05:00.0/vram %d drm/0000:26:00.0/vram %[1]d", uint64(192)<<30))
	m.put("/etc/systemd/system/notebook@.service", "[Service]\nExecStart=sleep infinity\n")
	m.run(`printf '%s' "$1" >>/etc/dcm/dcm.toml && systemctl daemon-reload`, forShares)
	m.use("cpx-nps4")

	// A partition has 24 GiB.
	one, two, idle := m.shares("one", 4), m.shares("two", 4), m.shares("idle", 0)
	enforced := func() {
		m.t.Helper()
		for _, s := range []sharer{one, two} {
			s.limited(6)
			s.fails(3)
			s.allocates(2)
		}
		idle.limited(6)
		idle.fails(7)
		idle.allocates(6)
	}
	enforced()
	m.usage(8)
	m.run("systemctl start notebook@1")
	notebook := sharer{m, m.run("systemctl show --property=ControlGroup --value notebook@1"), m.run("readlink -f /dev/dcm/notebook/render0")}
	notebook.limited(8)
	notebook.fails(9)
	notebook.allocates(8)

	for _, disturbance := range []string{
		"systemctl kill --signal=KILL --kill-whom=main dcm",
		"systemctl restart dcm dcm-guard",
		"systemctl daemon-reload",
		"systemctl daemon-reexec",
	} {
		m.run(disturbance)
		enforced()
		m.run("dcm check") // the daemon runs again
		enforced()
		notebook.fails(9)
	}

	m.run("systemctl stop one two")
	m.run(`e2e-agent await-command '[ ! -e "/sys/fs/cgroup$1" ] && [ ! -e "/sys/fs/cgroup$2" ]' "$1" "$2"`, one.cgroup, two.cgroup)
	m.usage(0)
	idle.limited(6)
}

// shares starts a lease of a quarter of a partition that allocates memory.
func (m machine) shares(name string, gibibytes int) sharer {
	m.t.Helper()
	const command = `group=$(cut -d: -f3 /proc/self/cgroup)
for node in /dev/dri/renderD*; do
	(exec 3<>$node) 2>/dev/null && echo $group $node
done >/run/$0
exec e2e-agent allocate $(cut -d" " -f2 /run/$0) $1 /run/$0.allocated`
	m.run(`systemd-run --quiet --collect --unit="$1" -p StandardError=file:/run/"$1".messages dcm run --share 4 -- sh -c "$3" "$1" "$2"`,
		name, strconv.Itoa(gibibytes), command)
	m.await("/run/"+name+".allocated", "allocated")
	if text := m.run("cat /run/" + name + ".messages"); !strings.Contains(text, "limits the memory to 6 GiB") {
		m.t.Errorf("dcm run does not print the memory limit:\n%s", text)
	}
	fields := strings.Fields(m.run("cat /run/" + name))
	if len(fields) != 2 {
		m.t.Fatalf("a lease of one partition has cgroup and node %q", fields)
	}
	return sharer{m, fields[0], fields[1]}
}

// limited expects the limit of one GPU in the cgroup, and none of the other GPU.
func (s sharer) limited(gibibytes int) {
	s.m.t.Helper()
	s.m.expect(fmt.Sprintf(`cut -d" " -f2 /sys/fs/cgroup'%s'/dmem.max | sort -n | xargs`, s.cgroup), fmt.Sprintf("max %d", uint64(gibibytes)<<30))
}

func (s sharer) allocates(gibibytes int) {
	s.m.t.Helper()
	if text := s.allocate(gibibytes); text != "" {
		s.m.t.Errorf("%s cannot allocate %d GiB: %s", s.cgroup, gibibytes, text)
	}
}

func (s sharer) fails(gibibytes int) {
	s.m.t.Helper()
	if text := s.allocate(gibibytes); !strings.Contains(text, "cannot allocate memory") {
		s.m.t.Errorf("allocation of %d GiB in %s: want a lack of memory, found %q", gibibytes, s.cgroup, text)
	}
}

// allocate returns the error of a new process in the cgroup, "" if it could allocate the memory.
func (s sharer) allocate(gibibytes int) string {
	s.m.t.Helper()
	r := s.m.try(`echo $$ >"/sys/fs/cgroup$1/cgroup.procs" && exec e2e-agent allocate "$2" "$3"`, s.cgroup, s.node, strconv.Itoa(gibibytes))
	if r.Code == 0 {
		return ""
	}
	return r.Stderr
}

// usage expects the memory that all leases use.
func (m machine) usage(gibibytes int) {
	m.t.Helper()
	m.expect(`awk '{ used += $2 } END { print used / 2^30 }' /sys/fs/cgroup/dcm.slice/dmem.current`, strconv.Itoa(gibibytes))
}
