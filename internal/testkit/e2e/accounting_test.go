package e2e_test

import (
	"encoding/json"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"dcm/internal/engine/event"
	"dcm/internal/frontends/status"
	"dcm/internal/leases/accounting"
)

// leasesAccounted tests what the owners of leases and the administrator read about them.
func leasesAccounted(t *testing.T, p product) {
	t.Parallel()
	for _, recipe := range suites() {
		t.Run(recipe.Suite, func(t *testing.T) {
			t.Parallel()
			m := installWith(t, recipe, p, driverless())
			m.put(settings, selecting("cpx-fast"))
			m.run("systemctl restart dcm; useradd --create-home --groups dcm ada")
			for _, s := range []struct {
				name string
				run  func(machine)
			}{
				{"leases listed", leasesListed},
				{"lease extended", leaseExtended},
				{"lease described to its command", leaseDescribed},
				{"command bound to a NUMA node", commandBound},
				{"notice before the end of a lease", leaseNoticed},
				{"daemon-reloads by command", reloadsCounted},
				{"use of a lease counted", useCounted},
				{"use of a service counted", serviceUseCounted},
				{"usage counted from the journal", usageCounted},
			} {
				t.Run(s.name, func(t *testing.T) { s.run(m.in(t)) })
			}
		})
	}
}

// holding starts a lease of a user that does not end by itself, and returns it as dcm leases lists
// it. Other leases must have ended.
func (m machine) holding(user, options string) status.Lease {
	m.t.Helper()
	m.run("rm -f /tmp/holding; setsid " + user + "dcm run " + options + " -- sh -c 'echo held >/tmp/holding; exec sleep infinity' >/dev/null 2>&1 </dev/null &")
	m.await("/tmp/holding", "held")
	return m.lease()
}

// lease returns the only lease.
func (m machine) lease() status.Lease {
	m.t.Helper()
	var all []status.Lease
	if text := m.run("dcm leases --json"); json.Unmarshal([]byte(text), &all) != nil || len(all) != 1 {
		m.t.Fatalf("dcm leases --json: want one lease, got %s", text)
	}
	return all[0]
}

// ended stops the leases.
func (m machine) ended() {
	m.t.Helper()
	m.try("systemctl stop 'dcm-*.scope'") // fails if one of them ends at that moment
	m.until(noLeases)
}

// leasesListed: every user reads the leases from PID 1, also without the daemon.
func leasesListed(m machine) {
	before := time.Unix(int64(m.seconds("date +%s.%N")), 0)
	l := m.holding(ada, "-n 2 --time 2h")
	if l.User != "ada" || l.Command != "sh" || len(l.Partitions) != 2 || !strings.HasPrefix(l.Partitions[0], "0000:") || l.Since.Before(before) ||
		l.Until == nil || l.Until.Sub(l.Since) != 2*time.Hour || l.Exclusive || l.Share != 0 {
		m.t.Errorf("dcm leases --json: want a lease of ada of two partitions for 2 hours, got %+v", l)
	}
	m.run("systemctl stop dcm")
	if text := m.run(ada + "dcm leases --long"); !hasAll(text, l.Lease, "ada", "sh", l.Partitions[0]+" "+l.Partitions[1]) {
		m.t.Errorf("dcm leases without the daemon: got %s", text)
	}
	m.run("systemctl start dcm")
	m.ended()
	if text := m.run("dcm leases"); text != "There is no lease." {
		m.t.Errorf("dcm leases after the last lease: got %s", text)
	}
}

// leaseExtended: a user extends a lease within max-time. PID 1 has the new limit, also after a kill of the
// daemon.
func leaseExtended(m machine) {
	m.put(settings, selecting("cpx-fast")+"[leases]\nmax-time = \"4h\"\n")
	m.run("systemctl restart dcm")
	l := m.holding(ada, "--time 2h")
	m.run(ada + "dcm leases --extend " + l.Lease + " --time +1h")
	m.run("systemctl kill --signal=KILL dcm")
	if now := m.lease(); now.Until == nil || now.Until.Sub(now.Since) != 3*time.Hour || !now.Since.Equal(l.Since) {
		m.t.Errorf("lease of 2 hours after an extension by one: got %+v", now)
	}
	if got := m.show(l.Lease, "RuntimeMaxUSec")["RuntimeMaxUSec"]; got != "3h" {
		m.t.Errorf("RuntimeMaxUSec of the scope: got %s, want 3h", got)
	}
	m.exits(69, ada+"dcm leases --extend "+l.Lease+" --time 5h", "max-time")
	m.exits(1, ada+"dcm leases --extend "+l.Lease+" --time 1h", "3h0m0s already")
	m.exits(64, "dcm leases --extend "+l.Lease, "--time")
	m.run("setsid dcm run -n 64 --wait -- true >/dev/null 2>&1 </dev/null & " + queued(1))
	m.exits(75, ada+"dcm leases --extend "+l.Lease+" --time 4h", "wait")
	m.run("dcm leases --extend " + l.Lease + " --time 5h")
	m.ended()
	m.until("[ -z \"$(ls /run/systemd/transient | grep ^dcm-)\" ]") // with the drop-in
	m.until("dcm queue | grep -q ^No")
	m.put(settings, selecting("cpx-fast"))
	m.run("systemctl restart dcm")
}

// leaseDescribed: the command reads its lease from the environment, and inherited filters are named.
func leaseDescribed(m machine) {
	r := m.try("env HIP_VISIBLE_DEVICES=3 dcm run -n 2 -- sh -c 'dcm leases --json; echo; env'")
	all, env, _ := strings.Cut(r.Stdout, "\n\n")
	var listed []status.Lease
	if json.Unmarshal([]byte(all), &listed) != nil || len(listed) != 1 {
		m.t.Fatalf("dcm leases in a lease: want one, got %s%s", r.Stdout, r.Stderr)
	}
	l := listed[0]
	for _, want := range []string{"DCM_LEASE=" + l.Lease, "DCM_PARTITIONS=" + strings.Join(l.Partitions, " "), "DCM_NUMA_NODES=0",
		"DCM_CDI_DEVICES=deviceconfig.org/partition=" + strings.Join(l.Partitions, " deviceconfig.org/partition="), "HIP_VISIBLE_DEVICES=3"} {
		if !slices.Contains(strings.Split(env, "\n"), want) {
			m.t.Errorf("environment of a lease: want %s, got:\n%s", want, env)
		}
	}
	if !strings.Contains(r.Stderr, "HIP_VISIBLE_DEVICES=3 is inherited") {
		m.t.Errorf("notes of dcm run: want one about HIP_VISIBLE_DEVICES, got %s", r.Stderr)
	}
	for _, name := range l.Partitions {
		if !strings.Contains(m.run("cat /run/cdi/dcm.json"), `"`+name+`"`) {
			m.t.Errorf("CDI file: want device %s", name)
		}
	}
}

// countedUsage is the output of dcm usage --json.
type countedUsage struct {
	Since, Until time.Time
	Complete     time.Time `json:"complete_since"`
	Totals       []accounting.Total
	Unsure       int `json:"uncounted_runs"`
}

// partitionHours returns the usage by user, unit or GPU.
func (m machine) partitionHours(options string) (u countedUsage, by map[string]accounting.Total) {
	m.t.Helper()
	text := m.run("journalctl --sync; dcm usage --json " + options)
	if err := json.Unmarshal([]byte(text), &u); err != nil {
		m.t.Fatalf("dcm usage --json %s: %v in %s", options, err, text)
	}
	by = make(map[string]accounting.Total)
	for _, total := range u.Totals {
		by[total.Name] = total
	}
	return u, by
}

// usageCounted: the usage of leases and services is that of PID 1's entries: after a kill of the
// daemon, while a lease runs, and after a reboot.
func usageCounted(m machine) {
	m.put("/etc/systemd/system/alpha.service", holder)
	m.put(settings, selecting("cpx-fast")+"[[reservation]]\nunit = \"alpha\"\npartitions = 4\n")
	m.run("systemctl daemon-reload; systemctl add-wants multi-user.target alpha; dcm apply; systemctl start alpha")
	before := m.seconds("date +%s.%N")
	l := m.holding(ada, "-n 2")
	m.run("systemctl kill --signal=KILL dcm")
	m.ended()
	took := m.seconds("date +%s.%N") - before
	_, units := m.partitionHours("--by unit")
	if got := units[l.Lease]; got.Runs != 1 || got.Seconds <= 0 || got.Seconds > 2*took {
		m.t.Errorf("usage of a lease of 2 partitions for at most %.1f seconds: got %+v", took, got)
	}
	services := units["alpha.service"]
	if services.Runs != 1 || services.Seconds < 4*(took-1) {
		m.t.Errorf("usage of alpha with 4 partitions for more than %.1f seconds: got %+v", took-1, services)
	}

	l = m.holding(ada, "-n 2")
	_, first := m.partitionHours("--by user")
	_, second := m.partitionHours("--by user")
	if first["ada"].Seconds <= 0 || second["ada"].Seconds <= first["ada"].Seconds || second[""].Seconds <= first[""].Seconds {
		m.t.Errorf("usage while a lease and a service run: want it to grow, got %+v and then %+v", first, second)
	}
	m.reboot()
	m.run("systemctl is-active dcm && systemctl is-active alpha")
	u, units := m.partitionHours("--by unit")
	lasted := m.seconds("date +%s.%N") - float64(l.Since.UnixMicro())/1e6
	if got := units[l.Lease]; got.Runs != 1 || got.Seconds <= 0 || got.Seconds > 2*lasted {
		m.t.Errorf("usage of a lease that a reboot ended: got %+v, want at most %.1f", got, 2*lasted)
	}
	if got := units["alpha.service"]; got.Runs != services.Runs+1 || u.Unsure != 0 || u.Complete.IsZero() || !u.Since.Equal(u.Complete) {
		m.t.Errorf("usage of alpha after a reboot: want one run more and a complete journal, got %+v of %+v", got, u)
	}
	if _, gpus := m.partitionHours("--by gpu"); gpus["0000:05:00.0"].Seconds <= 0 {
		m.t.Errorf("usage by GPU: got %+v", gpus)
	}
	if _, none := m.partitionHours("--by user --since 2100-01-01"); len(none) > 0 {
		m.t.Errorf("usage since a day in the future: got %+v", none)
	}
	m.exits(0, "dcm usage", "PARTITION-HOURS", "complete since", "ada", "(services)")
	m.exits(1, ada+"dcm usage", "systemd-journal")
	m.exits(64, "dcm usage --since now-ish", "2026-11-01")
}

// commandBound: the kernel reports that the command, and a child of it, have the processors and memory of the
// partitions' NUMA node only.
func commandBound(m machine) {
	cpus := m.run("cat /sys/devices/system/node/node0/cpulist")
	text := m.run(ada + `dcm run -n 2 --numa -- sh -c 'echo node=$DCM_NUMA_NODES; grep Cpus_allowed_list /proc/self/status; sh -c "grep -h stack /proc/self/numa_maps"'`)
	if !hasAll(text, "node=0", "bind:0") {
		m.t.Errorf("command bound to node 0 with the processors %s: got %s", cpus, text)
	}
	m.exits(75, "dcm run -n 40 --numa -- true", "several NUMA nodes (found 0,1, want one)")
	m.until(noLeases)
	m.exits(75, "dcm run -n 40 --numa --dry-run -- true", "several NUMA nodes")
	m.exits(64, "dcm run --numa --node mi300x-8 --dry-run -- true", "--numa")
	// The host of the test has no processors of the simulated node 1.
	m.holding(ada, "-n 32")
	m.exits(1, "dcm run --numa -- true", "cannot bind to the processors of NUMA node 1")
	m.ended()
	if text := m.run("dcm run -- sh -c 'grep -h stack /proc/self/numa_maps'"); !strings.Contains(text, "default") {
		m.t.Errorf("command without --numa: want the default policy, got %s", text)
	}
}

// leaseNoticed: the user reads on the terminal that the time limit is about to end the lease, before the old and
// the new end. The terminal has the mode that is the default since systemd 258.
func leaseNoticed(m machine) {
	entries := m.newEntries("MESSAGE_ID=" + string(event.LeaseEnds))
	m.run("rm -f /tmp/terminal; (setsid " + ada + "script --quiet --flush --command 'chmod 0600 $(tty); dcm run --time 60s -- sleep infinity' /tmp/terminal >/dev/null 2>&1 </dev/null &)")
	m.until("dcm leases | grep -q ada")
	l := m.lease()
	m.await("/tmp/terminal", "dcm: "+l.Lease+" ends at ", "extend "+l.Lease)
	m.run("systemctl kill --signal=KILL dcm") // a later daemon sends the next notice
	m.run("dcm leases --extend " + l.Lease + " --time +30s")
	m.until("[ $(grep -c 'dcm: " + l.Lease + " ends at' /tmp/terminal) -ge 2 ]")
	m.ended()
	all := entries()
	if len(all) < 2 || all[0]["DCM_LEASE"] != l.Lease || all[0]["DCM_USER"] != "ada" {
		m.t.Errorf("entries of the notices: want two of %s, got %+v", l.Lease, all)
	}
}

// reloadsCounted: a daemon-reload writes the device lists of all units again, so commands do without.
func reloadsCounted(m machine) {
	reloads := func() int {
		n, err := strconv.Atoi(m.run("journalctl --quiet -b _PID=1 -o cat --grep '^Reloading\\.' | wc -l"))
		if err != nil {
			m.t.Fatal(err)
		}
		return n
	}
	m.run("(setsid " + ada + "dcm run --time 600s -- sleep infinity >/dev/null 2>&1 </dev/null &)")
	m.until("dcm leases | grep -q ada")
	lease := m.lease().Lease
	for _, command := range []struct {
		text string
		want int
	}{
		{"dcm apply", 0},
		{"dcm run -- true", 0},
		{"dcm leases --extend " + lease + " --time +30s", 1}, // systemd reads the new limit from a file
		{"dcm release " + lease, 0},
		{"dcm use spx-nps1", 0},
		{"dcm use cpx-fast", 0},
	} {
		before := reloads()
		m.run(command.text)
		if got := reloads() - before; got != command.want {
			m.t.Errorf("%s: %d daemon-reloads, want %d", command.text, got, command.want)
		}
	}
	before := reloads()
	old := m.run("cat " + settings)
	m.put(settings, old+"\n[[client]]\nunit = \"extra.service\"\n")
	m.run("systemctl reload dcm")
	m.until("[ -e /run/systemd/generator/extra.service.d/50-dcm.conf ]")
	if got := reloads() - before; got != 1 {
		m.t.Errorf("another client: %d daemon-reloads, want 1", got)
	}
	m.put(settings, old)
	m.run("systemctl reload dcm")
	m.until("[ ! -e /run/systemd/generator/extra.service.d/50-dcm.conf ]")
}

// useCounted: utilisation and energy of a lease of a whole GPU come from the driver's counters, and the peak memory from
// PID 1, whatever happens to the daemon in between.
func useCounted(m machine) {
	m.run(`for i in 0 1 2 3 4 5 6 7; do echo "{\"partition\":\"0000:05:00.0-$i\",\"busy\":40}" >/run/dcm-sim/ctl/use; done`)
	m.run("rm -f /tmp/holding; setsid " + ada + "dcm run --gpus 1 -- sh -c 'head -c 200M /dev/zero | tail -c 190M | wc -c; echo held >/tmp/holding; exec sleep infinity' >/dev/null 2>&1 </dev/null &")
	m.await("/tmp/holding", "held")
	l := m.lease()
	counted := "journalctl --sync; journalctl --quiet MESSAGE_ID=" + string(event.LeaseCounted) + " DCM_LEASE=" + l.Lease + " DCM_AT="
	m.until("[ -n \"$(" + counted + "start)\" ]")
	// The counters are read at the end only if a daemon is up, so the next one must have started.
	m.run("systemctl kill --signal=KILL dcm; systemctl start dcm; dcm leases; dcm run --dry-run -- true")
	m.ended()
	m.until("[ -n \"$(" + counted + "end)\" ]")
	_, units := m.partitionHours("--by unit")
	got := units[l.Lease]
	if got.Busy == nil || *got.Busy < 39 || *got.Busy > 41 || got.Energy == nil || *got.Energy < 300 {
		m.t.Errorf("use of a lease of a GPU at 40 %%: got %+v", got)
	}
	// systemd logs it since version 256, and only where the container has the memory controller.
	if memory := m.run("systemctl --version | head -1 | cut -d' ' -f2; grep -o memory /sys/fs/cgroup/cgroup.controllers || true"); memory > "256" && strings.HasSuffix(memory, "memory") {
		if got.PeakMemory == nil || *got.PeakMemory < 100<<20 {
			m.t.Errorf("peak memory of the lease: got %+v", got)
		}
	} else if got.PeakMemory != nil {
		m.t.Errorf("peak memory without a source: got %d", *got.PeakMemory)
	}
	m.exits(0, "dcm usage --by unit", "40 %", "kWh")
	m.run("mkdir --parents /var/lib/prometheus/node-exporter; systemctl restart dcm; dcm run -- true; systemctl reload dcm")
	m.await("/run/dcm/metrics/dcm.prom", `dcm_leased_partition_seconds_total{user="root"}`)
	m.run("dcm-sim reset; rm -r /var/lib/prometheus; systemctl restart dcm")
}

// serviceUseCounted: the utilisation of a reserved service comes from the driver's counters at its start and end,
// also if the daemon is killed in between.
func serviceUseCounted(m machine) {
	m.run(`for i in 0 1 2 3 4 5 6 7; do echo "{\"partition\":\"0000:26:00.0-$i\",\"busy\":60}" >/run/dcm-sim/ctl/use; done`)
	m.put("/etc/systemd/system/counted@.service", holder)
	m.put(settings, selecting("cpx-fast")+"[[reservation]]\nunit = \"counted@1\"\npartitions = 2\ngpus = [1]\n")
	m.run("systemctl daemon-reload; dcm apply; systemctl start counted@1")
	counted := "journalctl --sync; journalctl --quiet MESSAGE_ID=" + string(event.LeaseCounted) + " DCM_LEASE=counted@1.service DCM_AT="
	m.until("[ -n \"$(" + counted + "start)\" ]")
	m.run("systemctl kill --signal=KILL dcm; systemctl start dcm; dcm leases")
	m.until("[ $(" + counted + "start | wc -l) = 2 ]")
	m.run("systemctl stop counted@1")
	m.until("[ -n \"$(" + counted + "end)\" ]")
	_, units := m.partitionHours("--by unit")
	if got := units["counted@1.service"]; got.Runs != 1 || got.Busy == nil || *got.Busy < 59 || *got.Busy > 61 {
		m.t.Errorf("use of a service with partitions at 60 %%: got %+v", got)
	}
	m.run("dcm-sim reset; systemctl restart dcm")
}
