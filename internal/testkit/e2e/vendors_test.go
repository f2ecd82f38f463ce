package e2e_test

import (
	"fmt"
	"slices"
	"strings"

	"dcm/internal/engine/runstate"
	"dcm/internal/exitcode"
)

// bothVendors: GPUs of both vendors are changed in one transaction.
func bothVendors(m machine) {
	m.put(settings, `profile = "both"

[clients]
units = ["gpuagent", "amd-metrics-exporter"]

[profiles.both]
memory = "NPS1"
[[profiles.both.group]]
compute = "CPX"
count = "rest"
[[profiles.both.group]]
mig = { "1g.10gb" = 7 }
count = "rest"

[profiles.whole]
memory = "NPS1"
[[profiles.whole.group]]
compute = "SPX"
count = "rest"
[[profiles.whole.group]]
mig = "off"
count = "rest"
`)
	m.run("systemctl restart dcm; systemctl start gpuagent")
	has := func(mig string, instances int, mode string) {
		m.t.Helper()
		m.divided(mig, instances)
		modes := m.modes()
		for gpu, got := range modes {
			if got.String() != mode {
				m.t.Errorf("%s is %s, want %s", gpu, got, mode)
			}
		}
		if len(modes) != 4 {
			m.t.Errorf("modes of %d GPUs", len(modes))
		}
	}
	has("7 × 1g.10gb", 7, "CPX/NPS1")
	if run := m.lastRun(); run.Result != runstate.Applied || len(run.GPUs) != 8 || len(run.Steps) != 4+8 {
		m.t.Errorf("the run ended %s with %d GPUs and %d steps", run.Result, len(run.GPUs), len(run.Steps))
	}
	before := m.units(agentUnit)
	m.run("dcm apply whole")
	m.bounced(before)
	has("MIG off", 0, "SPX/NPS1")
	m.knob("fail nvmlDeviceCreateGpuInstanceWithPlacement 23 0 1 0000:d1:00.0")
	r := m.try("dcm apply both")
	m.knob("")
	if run := m.lastRun(); r.Code == 0 || run.Result != runstate.RolledBack {
		m.t.Errorf("exit status %d, the run ended %s", r.Code, run.Result)
	}
	has("MIG off", 0, "SPX/NPS1")
}

// bothReserved: a holder of partitions of one vendor can open none of the other vendor.
func bothReserved(m machine) {
	for _, name := range []string{"alpha", "beta@"} {
		m.put("/etc/systemd/system/"+name+".service", holder)
	}
	m.knob("nodes /dev 509")
	m.run("rm -f /run/dcm/dcm.toml.d/*; systemctl daemon-reload")
	reserve := func(more string) {
		text := m.run("cat " + settings)
		i := strings.Index(text+"[[reservation]]", "[[reservation]]")
		m.put(settings, text[:min(i, len(text))]+"\n"+more)
		m.run("dcm apply")
	}
	reserve("")
	d := m.deal()
	amd, nvidia := d.Parts[0].GPU, d.Parts[len(d.Parts)-1].GPU
	reserve(fmt.Sprintf("[[reservation]]\nunit = \"alpha\"\npartitions = 2\nexclusive = true\ngpus = [%q]\n[[reservation]]\nunit = \"beta@1\"\npartitions = 2\nexclusive = true\ngpus = [%q]\n", amd, nvidia))
	m.run("systemctl start alpha beta@1")
	d = m.deal()
	alpha, beta := d.of("alpha"), d.of("beta-1")
	if len(alpha) != 2 || len(beta) != 2 || !strings.HasPrefix(alpha[0], "/dev/dri/") || !strings.HasPrefix(beta[0], "/dev/nvidia-caps/") {
		m.t.Fatalf("nodes of alpha and beta: got %s and %s", alpha, beta)
	}
	m.can("alpha.service", d, false, d.with(alpha...))
	m.can("beta@1.service", d, false, d.with(beta...))
	m.can("", d, true, slices.Concat(alpha, beta))
	lease := m.lessee("-n 2")
	m.can(lease, d, false, d.with(m.leased(d, lease)...))
	m.run("dcm release " + lease)
	// The request selects partitions by vendor and by mode.
	reserve("[[reservation]]\nunit = \"alpha\"\npartitions = 3\nexclusive = true\nmode = \"CPX\"\n[[reservation]]\nunit = \"beta@1\"\npartitions = 3\nexclusive = true\nvendor = \"nvidia\"\n")
	m.run("systemctl start alpha beta@1")
	d = m.deal()
	alpha, beta = d.of("alpha"), d.of("beta-1")
	if len(alpha) != 3 || len(beta) != 3 || !strings.HasPrefix(alpha[2], "/dev/dri/") || !strings.HasPrefix(beta[2], "/dev/nvidia-caps/") {
		m.t.Fatalf("nodes of alpha and beta by vendor: got %s and %s", alpha, beta)
	}
	m.can("alpha.service", d, false, d.with(alpha...))
	m.can("beta@1.service", d, false, d.with(beta...))
	for options, node := range map[string]string{"-n 2 --vendor amd": "/dev/dri/", "-n 2 --mode 1g.10gb": "/dev/nvidia-caps/"} {
		lease := m.lessee(options)
		has := m.leased(d, lease)
		if len(has) != 2 || !strings.HasPrefix(has[0], node) || !strings.HasPrefix(has[1], node) {
			m.t.Errorf("dcm run %s: want two nodes of that kind, got %s", options, has)
		}
		m.can(lease, d, false, d.with(has...))
		m.run("dcm release " + lease)
	}
	if r := m.try("dcm run --mode 3g.40gb -- true"); r.Code != exitcode.Permanent || !strings.Contains(r.Stderr, "3g.40gb") || !hasAll(r.Stderr, "amd CPX/NPS1", "nvidia 1g.10gb") {
		m.t.Errorf("dcm run for a missing mode: want 69 and the modes, got %d, %s", r.Code, r.Stderr)
	}
	before := m.units("alpha.service", "beta@1.service")
	if r := m.try("dcm apply whole"); r.Code == 0 || !hasAll(r.Stderr, "reservation alpha", "CPX") {
		m.t.Errorf("profile without the reserved partitions: want a refusal, got %d, %s", r.Code, r.Stderr)
	}
	m.untouched(before)
}
