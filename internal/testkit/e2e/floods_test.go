package e2e_test

import (
	"fmt"
	"os"
	"strconv"
	"strings"
	"testing"
	"time"

	"dcm/internal/gpu/partition"
	"dcm/internal/testkit/e2e"
)

// floodMemory is the maximum of the daemon's memory in MiB, a quarter of its MemoryMax=.
const floodMemory = 64

// floods tests the daemon's memory under floods of calls by a user, on both message buses. DCM_FLOOD_SECONDS is the
// length of each flood. Each flood is compared with the times of root's requests without one.
func floods(t *testing.T, p product) {
	t.Parallel()
	m := install(t, e2e.Polkit(), p)
	m.withUser()
	m.run("groupadd --force dcm; useradd eve")
	t.Run("dbus-daemon", func(t *testing.T) { m.in(t).floodedOn("dbus.service") })
	m.run("systemctl disable dbus-daemon.service || :; systemctl enable --force dbus-broker.service")
	m.reboot()
	t.Run("dbus-broker", func(t *testing.T) { m.in(t).floodedOn("dbus-broker.service") })
}

// floodedOn floods the bus of that unit.
func (m machine) floodedOn(bus string) {
	m.t.Helper()
	if got := m.show("dbus.service", "Id")["Id"]; got != bus {
		m.t.Fatalf("Id of dbus.service: got %s, want %s", got, bus)
	}
	m.until("dcm status --json | grep -q in-sync")
	m.timed("no flood")
	for _, flood := range floodKinds() {
		m.flooded(flood)
	}
}

// floodKinds returns the kind, connections and mode of each flood.
func floodKinds() []string {
	if kinds := os.Getenv("DCM_FLOODS"); kinds != "" {
		return strings.Split(kinds, ",")
	}
	return []string{
		"managed 1 read", "managed 40 read", "managed 8 unread", "getall 40 read", "get 40 noreply", "introspect 40 read",
		"ping 1 noreply", "ping 40 read", "account 1 read", "account 40 read", "plan 40 read", "wait 40 read", "large 40 noreply",
	}
}

func (m machine) flooded(flood string) {
	m.t.Helper()
	seconds, err := strconv.Atoi(os.Getenv("DCM_FLOOD_SECONDS"))
	if err != nil {
		seconds = 4
	}
	f := strings.Fields(flood)
	m.run("systemctl restart dcm; rm -f /run/poured")
	before := m.run(mainPID("dcm"))
	m.run(fmt.Sprintf("setsid setpriv --reuid=eve --regid=eve --init-groups e2e-agent attack pour %s %d %s %s >/run/poured 2>&1 </dev/null &", f[0], seconds, f[1], f[2]))
	m.timed(flood)
	m.until("test -s /run/poured")
	high := m.highWater("dcm")
	m.t.Logf("%s: %s calls in %d s, peak memory of the daemon %d MiB", flood, m.run("cat /run/poured"), seconds, high)
	if high > floodMemory {
		m.t.Errorf("%s: peak memory of the daemon: got %d MiB, want at most %d MiB", flood, high, floodMemory)
	}
	if after := m.run(mainPID("dcm")); after != before {
		m.t.Errorf("%s: the daemon was restarted", flood)
	}
}

// timed makes root's requests and logs their times.
func (m machine) timed(during string) {
	m.t.Helper()
	for _, profile := range []string{"spx-fast", "cpx-fast"} {
		began := time.Now()
		m.put(settings, selecting(profile))
		m.applied(profile)
		edited := time.Since(began)
		began = time.Now()
		m.run("dcm run -- true")
		leased := time.Since(began)
		began = time.Now()
		m.run("dcm status >/dev/null")
		m.t.Logf("%s: edit %.2f s, dcm run %.2f s, dcm status %.2f s", during, edited.Seconds(), leased.Seconds(), time.Since(began).Seconds())
	}
	m.has(partition.Mode{Compute: partition.CPX, Memory: "NPS1"})
}
