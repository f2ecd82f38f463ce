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

// scale tests a node of 64 GPUs with 200 clients, and 300 units that require one of them. A restart is a
// transaction of 501 units.
func scale(t *testing.T, p product) {
	if os.Getenv("DCM_SCALE") == "" {
		t.Skip("a node of 64 GPUs and 500 units is tried by make scale, which sets DCM_SCALE")
	}
	t.Parallel()
	seed, err := e2e.Node("mi300x-8", p.sim)
	if err != nil {
		t.Fatal(err)
	}
	seed["/etc/e2e/kind"] = e2e.File{Content: []byte("KIND=mi300x-8\nSIM_OPTIONS=--gpus=64\n")}
	m := boot(t, e2e.Trixie(), p.agent, seed)
	m.put("/root/dcm.deb", string(only(t, p.packages+"/*_amd64.deb")))
	m.run("dpkg --install /root/dcm.deb")
	m.run(`cd /etc/systemd/system
		for i in $(seq 200); do printf '[Service]\nExecStart=sleep infinity\n' >client-$i.service; done
		for i in $(seq 300); do printf '[Unit]\nRequires=client-%d.service\nAfter=client-%d.service\n[Service]\nExecStart=sleep infinity\n' $((i % 200 + 1)) $((i % 200 + 1)) >worker-$i.service; done`)
	m.put(settings, withManyClients("spx-fast"))
	m.run("systemctl daemon-reload; systemctl restart dcm; systemctl start $(cd /etc/systemd/system; echo client-*.service worker-*.service)")
	t.Run("transaction of 501 units", func(t *testing.T) { transaction(m.in(t)) })
	t.Run("1,000 edits in ten seconds", func(t *testing.T) { edits(m.in(t)) })
	t.Run("configuration of 10 MB", func(t *testing.T) { hugeFile(m.in(t)) })
}

// withManyClients returns the configuration of selecting with all of these clients.
func withManyClients(profile string) string {
	var clients []string
	for i := range 200 {
		clients = append(clients, fmt.Sprintf(`"client-%d"`, i+1))
	}
	return strings.Replace(selecting(profile), `"amd-metrics-exporter"`, strings.Join(clients, ", ")+`, "amd-metrics-exporter"`, 1)
}

// up returns the number of active clients.
func (m machine) up() string {
	m.t.Helper()
	return m.run("systemctl list-units --state=active --no-legend 'client-*' 'worker-*' | wc -l")
}

func transaction(m machine) {
	if got := m.up(); got != "500" {
		m.t.Fatalf("%s units are up before, want 500", got)
	}
	began := time.Now()
	m.run("dcm apply cpx-fast")
	took := time.Since(began)
	if got := m.up(); got != "500" {
		m.t.Errorf("%s units are up, want 500", got)
	}
	if got, want := m.counted(), "64 × CPX/NPS1"; got != want {
		m.t.Errorf("the GPUs are at %s, want %s", got, want)
	}
	m.t.Logf("64 GPUs and 500 units: %s, the daemon's memory at most %d MiB", took.Round(time.Millisecond), m.peak("dcm"))
	m.run("dcm apply --clear")
}

// peak returns the peak memory of a unit's main process in MiB.
func (m machine) peak(unit string) int {
	m.t.Helper()
	text := m.run("awk '/VmHWM/ { print $2 }' /proc/$(systemctl show --property=MainPID --value " + unit + ")/status")
	kib, err := strconv.Atoi(text)
	if err != nil {
		m.t.Fatal(err)
	}
	if kib > 48<<10 {
		m.t.Errorf("peak memory of %s: %d KiB", unit, kib)
	}
	return kib >> 10
}

// runs returns the number of runs of the oneshot.
func (m machine) runs() int {
	m.t.Helper()
	n, err := strconv.Atoi(m.run("journalctl --boot --output=cat _PID=1 UNIT=dcm-apply.service | grep -c ^Starting"))
	if err != nil {
		m.t.Fatal(err)
	}
	return n
}

// Many edits in quick succession, as by a faulty program, cause one run, and the last edit is applied.
func edits(m machine) {
	m.put("/root/spx", withManyClients("spx-fast"))
	m.put("/root/cpx", withManyClients("cpx-fast"))
	before, began := m.runs(), time.Now()
	m.run(`for i in $(seq 500); do
		for profile in spx cpx; do cp /root/$profile /etc/dcm/dcm.toml.d/.new; mv /etc/dcm/dcm.toml.d/.new ` + settings + `; sleep 0.008; done
	done`)
	took := time.Since(began)
	m.applied("cpx-fast")
	// On a busy machine the edits may take longer than a run. Then there is more than one run.
	if got, most := m.runs()-before, 1+int(took/(20*time.Second)); got < 1 || got > most {
		m.t.Errorf("%d runs, want at most %d for edits over %s", got, most, took.Round(time.Second))
	}
	if got := m.up(); got != "500" {
		m.t.Errorf("%s units are up, want 500", got)
	}
	m.t.Logf("peak memory of the daemon: %d MiB", m.peak("dcm"))
}

func hugeFile(m machine) {
	before := m.runs()
	m.run("yes '# filler' | head -c 10000000 >/root/huge; cp /root/huge /etc/dcm/dcm.toml.d/99-huge.toml")
	m.await("/run/dcm/state.json", "99-huge.toml", "1 MiB")
	began := time.Now()
	r := m.try("dcm check")
	if took := time.Since(began); r.Code != 78 || !strings.Contains(r.Stderr, "1 MiB") || took > 5*time.Second {
		m.t.Errorf("dcm check: want 78 within 5s, got %d after %s:\n%s", r.Code, took, r.Stderr)
	}
	if got := m.runs() - before; got != 0 {
		m.t.Errorf("%d runs, want none", got)
	}
	m.run("rm /etc/dcm/dcm.toml.d/99-huge.toml")
}
