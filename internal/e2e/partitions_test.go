package e2e_test

import (
	"fmt"
	"strings"
	"testing"

	"dcm/internal/e2e"
	"dcm/internal/report"
)

// reserving is the file of the partitions' scenarios.
const reserving = `profile = "%s"

[clients]
units = ["amd-metrics-exporter", "gpuagent"]

[profiles.cpx-fast]
compute = "CPX"
memory = "NPS1"
[profiles.qpx-fast]
compute = "QPX"
memory = "NPS1"
[profiles.spx-fast]
compute = "SPX"
memory = "NPS1"

[[reservation]]
unit = "alpha"
partitions = 2
exclusive = true

[[reservation]]
unit = "beta@1"
partitions = %d
place = "spread"
`

// holder is a service that does nothing with its partitions but have them.
const holder = "[Service]\nExecStart=sleep infinity\n"

// partitions is what services and users have of the partitions. Device nodes without
// a driver tell whom the cgroups let through: ENXIO where they do, EPERM where not.
func partitions(t *testing.T, p product) {
	for _, recipe := range suites() {
		t.Run(recipe.Suite, func(t *testing.T) {
			t.Parallel()
			m := installWith(t, recipe, p, e2e.Seed{e2e.DevicePrograms: {}})
			m.nodes()
			m.put("/etc/systemd/system/alpha.service", holder)
			m.put("/etc/systemd/system/beta@.service", holder)
			m.run("systemctl daemon-reload; mkdir -p /sys/fs/bpf; mount -t bpf bpf /sys/fs/bpf")
			for _, s := range []struct {
				name string
				run  func(machine)
			}{
				{"services have what is reserved, and nothing else", reservedConfined},
				{"after a repartition they have what there is then", reservedFollow},
				{"a change of reservations moves those alone", reservedAlone},
				{"a profile with too few is refused beforehand", reservedRefused},
				{"a broken edit leaves them confined", reservedBroken},
				{"who may has leases, confined to them", leasesGiven},
				{"everybody is told how much is in use, and only who asks has it looked at", usageSeen},
				{"leases last over kills, and are waited for", leasesLast},
				{"a reservation that is gone lets its unit go", reservedReleased},
				{"an administrator's word, and removal, take the guard out", guardOff},
			} {
				t.Run(s.name, func(t *testing.T) { s.run(m.in(t)) })
			}
		})
	}
}

// nodes replaces the simulator's device files, which are no devices, by such without a
// driver.
func (m machine) nodes() {
	m.t.Helper()
	m.run(`systemctl stop amd-metrics-exporter gpuagent; umount /dev/dri; umount /dev/kfd; rm -f /dev/kfd; mknod -m 666 /dev/kfd c 511 0
		for i in $(seq 128 191); do mknod -m 666 /dev/dri/renderD$i c 226 $i; mknod -m 666 /dev/dri/card$((i-128)) c 226 $((i-128)); done
		sed -i "s:exec 3<.*::" /usr/local/bin/gpu-client; systemctl start amd-metrics-exporter gpuagent dashboard`)
}

// opens tells how the opening of each node ends for a process of a unit, "" being a
// shell of root's.
func (m machine) opens(unit string, nodes ...string) string {
	m.t.Helper()
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

// mine lists where the links of a reservation lead.
func (m machine) mine(name string) []string {
	m.t.Helper()
	return strings.Fields(m.run(`for link in /dev/dcm/"$1"/render*; do readlink "$link"; done`, name))
}

func (m machine) reserve(profile string, beta int) {
	m.t.Helper()
	m.put(settings, fmt.Sprintf(reserving, profile, beta))
}

// confinedTo checks that the two services can open their own partitions alone, and
// that nobody else can open alpha's.
func (m machine) confinedTo(alpha, beta int) {
	m.t.Helper()
	a, b := m.mine("alpha"), m.mine("beta-1")
	if len(a) != alpha || len(b) != beta {
		m.t.Fatalf("alpha has %s and beta@1 %s, want %d and %d", a, b, alpha, beta)
	}
	free := m.run(`for i in $(seq 128 191); do echo /dev/dri/renderD$i; done | grep -vxF "$1" | head -1`, strings.Join(append(a, b...), "\n"))
	yes, no := strings.Repeat("yes ", 64), strings.Repeat("no ", 64)
	for _, c := range []struct {
		unit  string
		nodes []string
		want  string
	}{
		{"alpha.service", a, yes}, {"alpha.service", b, no}, {"alpha.service", []string{free}, no}, {"alpha.service", []string{"/dev/kfd"}, yes},
		{"beta@1.service", b, yes}, {"beta@1.service", a, no},
		{"gpuagent.service", a, no}, {"gpuagent.service", b, yes}, {"gpuagent.service", []string{free}, yes},
		{"", a, no}, {"", b, yes},
	} {
		want := strings.Join(strings.Fields(c.want)[:len(c.nodes)], " ")
		if got := m.opens(c.unit, c.nodes...); got != want {
			m.t.Errorf("%q opens %s: %s, want %s", c.unit, c.nodes, got, want)
		}
	}
}

func reservedConfined(m machine) {
	m.reserve("cpx-fast", 1)
	m.run("systemctl restart dcm")
	m.run("systemctl start alpha beta@1")
	m.confinedTo(2, 1)
	if got := m.show("alpha.service", "Slice")["Slice"]; got != "dcm.slice" {
		m.t.Errorf("alpha runs in %s", got)
	}
	p := decode[report.Partitions](m, "partitions.json")
	if len(p.Parts) != 64 || len(p.Reservations) != 2 {
		m.t.Errorf("listed are %d partitions and %+v", len(p.Parts), p.Reservations)
	}
	spec := m.run("cat /run/cdi/dcm.json")
	for _, name := range []string{`"reservation-alpha"`, `"0000:05:00.0-3"`, `"all"`} {
		if !strings.Contains(spec, name) {
			m.t.Errorf("container engines are not told of %s", name)
		}
	}
	m.run("systemctl daemon-reexec")
	m.confinedTo(2, 1)
	// KFD shows the topology to whom the lists let open the nodes. There is no driver here
	// that char-drm of the daemon's own list could mean.
	mine := m.mine("alpha")
	m.run(`systemctl set-property --runtime dcm DeviceAllow="$1 rw" DeviceAllow="$2 rw"`, mine...)
	if got := m.opens("dcm.service", mine...); got != "yes yes" {
		m.t.Errorf("the guard keeps dcm out of what it watches over: %s", got)
	}
	m.run("systemctl revert dcm; systemctl restart dcm")
}

func reservedFollow(m machine) {
	before := m.units("alpha.service", "beta@1.service", agentUnit)
	m.reserve("qpx-fast", 1)
	m.run("dcm apply")
	m.bounced(before)
	m.confinedTo(2, 1)
	if p := decode[report.Partitions](m, "partitions.json"); len(p.Parts) != 32 {
		m.t.Errorf("listed are %d partitions, want 32", len(p.Parts))
	}
	m.reserve("cpx-fast", 1)
	m.run("dcm apply")
	m.confinedTo(2, 1)
}

func reservedAlone(m machine) {
	still, beta := m.units("alpha.service", agentUnit, exporter), m.units("beta@1.service")
	had := m.mine("alpha")
	m.reserve("cpx-fast", 3)
	m.run("dcm apply")
	m.untouched(still)
	m.bounced(beta)
	m.confinedTo(2, 3)
	if now := m.mine("alpha"); strings.Join(now, " ") != strings.Join(had, " ") {
		m.t.Errorf("alpha had %s and has %s", had, now)
	}
}

func reservedRefused(m machine) {
	before := m.units("alpha.service", "beta@1.service", agentUnit)
	m.reserve("spx-fast", 12)
	r := m.try("dcm apply")
	if r.Code == 0 || !strings.Contains(r.Stderr, "14 partitions reserved (alpha 2, beta-1 12), and there are 8") {
		m.t.Errorf("exit status %d, %s", r.Code, r.Stderr)
	}
	m.untouched(map[string]string{"alpha.service": before["alpha.service"], agentUnit: before[agentUnit]})
	m.reserve("cpx-fast", 3)
	m.run("dcm apply")
	m.confinedTo(2, 3)
}

func reservedBroken(m machine) {
	m.put(settings, strings.Replace(fmt.Sprintf(reserving, "cpx-fast", 3), "[clients]", "[clients\n", 1))
	m.run("systemctl daemon-reload; systemctl restart alpha beta@1")
	m.confinedTo(2, 3)
	m.reserve("cpx-fast", 3)
	m.run("dcm apply")
}

func reservedReleased(m machine) {
	alpha, still := m.units("alpha.service"), m.units("beta@1.service", agentUnit)
	text := fmt.Sprintf(reserving, "cpx-fast", 3)
	i, j := strings.Index(text, "[[reservation]]\nunit = \"alpha\""), strings.Index(text, "[[reservation]]\nunit = \"beta@1\"")
	m.put(settings, text[:i]+text[j:])
	m.run("dcm apply")
	m.bounced(alpha)
	m.untouched(still)
	m.run("[ ! -e /dev/dcm/alpha ]")
	if got := m.opens("alpha.service", "/dev/dri/renderD128", "/dev/dri/renderD191"); got != "yes yes" {
		m.t.Errorf("without a reservation alpha opens: %s", got)
	}
	if got := m.opens("", "/dev/dri/renderD128"); got != "yes" {
		m.t.Errorf("a partition that is not exclusive any more opens for others: %s", got)
	}
}

func guardOff(m machine) {
	m.reserve("cpx-fast", 1)
	m.run("dcm apply; systemctl start alpha beta@1")
	alpha := m.mine("alpha")
	shut := func(want string) {
		m.t.Helper()
		if got := m.opens("", alpha[0]); got != want {
			m.t.Errorf("root's shell opens %s: %s, want %s", alpha[0], got, want)
		}
	}
	shut("no")
	m.run("dcm guard off")
	shut("yes")
	m.run("dcm apply; systemctl restart alpha")
	shut("yes")
	m.run("dcm guard on; systemctl is-active --wait dcm-guard || systemctl start dcm-guard")
	shut("no")
	m.run("dpkg --remove dcm")
	shut("yes")
	m.run("[ ! -e /sys/fs/bpf/dcm ] && [ ! -e /dev/dcm ] && [ ! -e /run/cdi/dcm.json ] && systemctl is-active alpha gpuagent")
}
