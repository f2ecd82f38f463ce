package e2e_test

import (
	"fmt"
	"os"
	"strconv"
	"strings"
	"testing"
	"time"

	"dcm/internal/testkit/e2e"
)

// leaseScale starts DCM_LEASES leases one after the other, and sometimes 60 concurrently. What the daemon,
// PID 1 and the file systems contain afterwards must not grow with the number of leases.
func leaseScale(t *testing.T, p product) {
	text := os.Getenv("DCM_LEASES")
	if text == "" {
		t.Skip("thousands of leases are given by make scale-leases, which sets DCM_LEASES")
	}
	t.Parallel()
	n, err := strconv.Atoi(text)
	if err != nil {
		t.Fatal(err)
	}
	m := installWith(t, e2e.Trixie(), p, driverless())
	m.put(settings, selecting("cpx-fast")+"[leases]\nshares = 2\n")
	m.put("/root/usage", usageScript)
	m.run("systemctl restart dcm")
	m.run(freezeSysfs)
	m.sequence(leaseChunk)
	m.together()
	first, began := m.usage(), time.Now()
	t.Logf("before: %s", first)
	for done := 0; done < n; {
		m.sequence(min(leaseChunk, n-done))
		if done += leaseChunk; done%leaseSample == 0 || done >= n {
			m.together()
			t.Logf("%d leases, %s: %s", min(done, n), time.Since(began).Round(time.Second), m.usage())
		}
	}
	last := m.usage()
	for name, most := range usageGrowth() {
		if grown := last[name] - first[name]; grown > most {
			t.Errorf("%s grew by %d with %d leases, want at most %d", name, grown, n, most)
		}
	}
}

const (
	leaseChunk  = 100  // leases per command; one of them is exclusive, one shared
	leaseSample = 1000 // leases between two samples
)

// freezeSysfs replaces the simulator's files by a copy, so that the simulator needs no processor time.
const freezeSysfs = `set -e
systemctl stop dcm
mkdir /run/frozen
mount -t tmpfs -o mode=0755 tmpfs /run/frozen
cp --archive --parents /sys/class /sys/bus /sys/devices /sys/dev /sys/module /run/frozen
for path in /run/frozen/sys/*; do mount --bind "$path" "/sys/${path##*/}"; done
systemctl start dcm`

// usageGrowth is the permitted growth of each value. None of them depends on the number of leases.
func usageGrowth() map[string]int {
	return map[string]int{
		"daemon-anon-KiB": 8 << 10, "daemon-fds": 4, "pid1-anon-KiB": 2 << 10, "pid1-fds": 4, "pid1-bpf": 2, "bus-anon-KiB": 1 << 10, "bus-fds": 4,
		"units": 4, "cgroups": 2, "run-dcm": 4, "run-transient": 2, "run": 20,
	}
}

// usage contains the sizes of processes and directories, by name.
type usage map[string]int

func (u usage) String() string {
	return strings.TrimSuffix(strings.TrimPrefix(fmt.Sprint(map[string]int(u)), "map["), "]")
}

// sequence starts leases one after the other.
func (m machine) sequence(n int) {
	m.t.Helper()
	m.run("for i in $(seq " + strconv.Itoa(n-2) + "); do dcm run -- true; done; dcm run --share 2 -- true 2>/dev/null; dcm run --exclusive -- true")
}

// together requests 60 leases concurrently.
func (m machine) together() {
	m.t.Helper()
	m.run(`cd /root; mkfifo up hold; exec 3<>up 4<>hold
for i in $(seq 60); do dcm run -- sh -c 'exec <hold; echo up >up; read end' 3>&- 4>&- & done
for i in $(seq 60); do read line <&3; done
exec 4>&-; wait; rm up hold`)
}

// usage reads the values after the end of the last lease.
func (m machine) usage() usage {
	m.t.Helper()
	m.await("/sys/fs/cgroup/dcm.slice/cgroup.events", "populated 0")
	out := make(usage)
	for line := range strings.Lines(m.run("sh /root/usage")) {
		name, value, _ := strings.Cut(strings.TrimSpace(line), " ")
		n, err := strconv.Atoi(value)
		if err != nil {
			m.t.Fatalf("%s: no number (found %q)", name, value)
		}
		out[name] = n
	}
	return out
}

const usageScript = `set -e
process() {
	awk -v name="$1" '/^VmRSS/ { print name "-rss-KiB", $2 } /^VmHWM/ { print name "-peak-KiB", $2 } /^RssAnon/ { print name "-anon-KiB", $2 }' "/proc/$2/status"
	echo "$1-fds $(ls "/proc/$2/fd" | wc -l)"
}
process daemon "$(systemctl show --property=MainPID --value dcm)"
process pid1 1
process bus "$(systemctl show --property=MainPID --value dbus)"
echo "pid1-bpf $(find /proc/1/fd -lname '*bpf*' | wc -l)"
echo "units $(systemctl list-units --all --no-legend | wc -l)"
echo "cgroups $(find /sys/fs/cgroup/dcm.slice -type d | wc -l)"
echo "run-dcm $(find /run/dcm | wc -l)"
echo "run-transient $(find /run/systemd/transient | wc -l)"
echo "run $(find /run -xdev -path /run/log -prune -o -print | wc -l)"
`
