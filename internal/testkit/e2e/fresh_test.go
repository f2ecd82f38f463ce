package e2e_test

import (
	"strings"
	"testing"

	"dcm/internal/frontends/status"
	"dcm/internal/gpu/nvml/standin"
	"dcm/internal/testkit/e2e"
)

// feature is a feature that is used alone on a new installation: no file of another one exists.
type feature struct {
	name     string
	settings string
	use      string // a shell script, with the service llm and the template each@
}

// dynamicH100 has no reservation and no lease.
const dynamicH100 = `profile = "dynamic"
[[profiles.dynamic.group]]
mig = {}
gpus = [3]
dynamic = true
[[profiles.dynamic.group]]
mig = "off"
count = "rest"
`

const starts = "systemctl start llm && systemctl is-active llm && systemctl stop llm"

// fromNVIDIA are the features that create MIG instances.
func fromNVIDIA() []feature {
	return []feature{
		{"service that creates its partition", dynamicH100 + "[[reservation]]\nunit = \"llm\"\nmake = \"3g.40gb\"\n", starts},
		{"template that creates its partitions", dynamicH100 + "[[reservation]]\nunit = \"each@\"\nmake = \"1g.10gb\"\n", "systemctl start each@1 each@2 && ls -d /dev/dcm/each:1 /dev/dcm/each:2 && systemctl stop each@1 each@2"},
		{"lease that creates its partition", dynamicH100, "dcm run --make 1g.10gb -- true"},
		{"lease", dynamicH100, "dcm run -- true"},
		{"reservation", dynamicH100 + "[[reservation]]\nunit = \"llm\"\npartitions = 1\n", starts},
		{"client of a GPU", dynamicH100 + "[[client]]\nunit = \"llm\"\ngpus = [0]\n", starts},
	}
}

// fromAMD are the other features.
func fromAMD() []feature {
	return []feature{
		{"no profile", "", "dcm plan; dcm usage && dcm leases && dcm queue && dcm partitions && dcm topology && dcm holders && dcm guard status; dcm check; dcm verify; dcm slurm-conf --gres; true"},
		{"lease", "profile = \"spx-nps1\"\n", "dcm run -- true && dcm usage"},
		{"exclusive lease", "profile = \"spx-nps1\"\n", "dcm run --exclusive -- true"},
		{"shared lease", "profile = \"spx-nps1\"\n[leases]\nshares = 2\n", "dcm run --share 2 -- true"},
		{"reservation", "profile = \"cpx-nps1\"\n[[reservation]]\nunit = \"llm\"\npartitions = 2\n", starts},
		{"reservation of a template", "profile = \"cpx-nps1\"\n[[reservation]]\nunit = \"each@\"\npartitions = 1\n", "systemctl start each@1 && systemctl stop each@1"},
		{"exclusive reservation", "profile = \"cpx-nps1\"\n[[reservation]]\nunit = \"llm\"\npartitions = 2\nexclusive = true\n", starts},
		{"client of a GPU", "profile = \"spx-nps1\"\n[[client]]\nunit = \"llm\"\ngpus = [1]\n", starts},
		{"client", "profile = \"spx-nps1\"\n[clients]\nunits = [\"llm\"]\n", starts},
		{"observer", "profile = \"spx-nps1\"\n[guard]\nobservers = [\"llm\"]\n", starts},
		{"self-test", "profile = \"spx-nps1\"\n", "dcm selftest --read"},
		{"change", "profile = \"spx-nps1\"\n", "dcm apply cpx-nps1 && dcm report --list && dcm apply --clear"},
		{"metrics", "profile = \"spx-nps1\"\n[metrics]\ntextfile = true\n", "test -s /run/dcm/metrics/dcm.prom"},
		{"agent", "profile = \"spx-nps1\"\n[agent]\nenabled = true\n", waitFor("systemctl is-active -q dcm-agent.socket")},
	}
}

// fresh tests each feature alone on a new installation.
func fresh(t *testing.T, p product) {
	t.Parallel()
	lib, err := standin.Build(t.Context(), t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	for _, recipe := range suites() {
		t.Run("amd/"+recipe.Suite, func(t *testing.T) {
			t.Parallel()
			m := installWith(t, recipe, p, driverless())
			for _, f := range fromAMD() {
				t.Run(f.name, func(t *testing.T) { m.in(t).usesAlone(f) })
			}
		})
		t.Run("nvidia/"+recipe.Suite, func(t *testing.T) {
			t.Parallel()
			more := driverlessNVIDIA()
			more[nodeless] = e2e.File{}
			m := nvidiaNode(t, recipe, p, "h100-8", lib, more)
			m.knob("nodes /dev 509")
			for _, f := range fromNVIDIA() {
				t.Run(f.name, func(t *testing.T) { m.in(t).usesAlone(f) })
			}
			t.Run("failure of dcm-make", func(t *testing.T) { makeFails(m.in(t)) })
		})
	}
}

// reinstall removes the package with all its files, and installs it with a configuration.
func (m machine) reinstall(config string) {
	m.t.Helper()
	m.run("systemctl disable --now amd-metrics-exporter gpuagent 2>/dev/null; systemctl stop llm 'each@*' 2>/dev/null; dpkg --purge dcm; rm -rf /etc/dcm /run/dcm /dev/dcm /dev/dcm-made /run/cdi /var/lib/dcm; systemctl reset-failed; journalctl --rotate --vacuum-time=1us")
	m.put("/etc/systemd/system/llm.service", holder)
	m.put("/etc/systemd/system/each@.service", holder)
	m.put("/root/dcm.toml", config)
	m.run("systemctl daemon-reload; dpkg --install /root/dcm.deb")
	if config != "" {
		m.run("cp /root/dcm.toml /etc/dcm/dcm.toml; systemctl daemon-reload; systemctl restart dcm; " + waitFor("dcm verify"))
	}
}

// usesAlone uses a feature. No program of dcm may end by a panic, and no unit may fail.
func (m machine) usesAlone(f feature) {
	m.reinstall(f.settings)
	m.run(f.use)
	if text := m.run("journalctl --boot --no-pager -o cat | grep -e '^panic:' -e '^goroutine ' -e 'nil pointer' || true"); text != "" {
		m.t.Errorf("panic:\n%s", m.run("journalctl --boot --no-pager -o cat | grep -A20 -m1 '^panic:' || true"))
	}
	if failed := m.run("systemctl list-units --failed --plain --no-legend 'dcm*'"); failed != "" {
		m.t.Errorf("failed units:\n%s", failed)
	}
	if code := m.try("dcm status").Code; code != 0 {
		m.t.Errorf("dcm status: exit status %d\n%s", code, m.try("dcm status").Stdout)
	}
}

// makeFails: the failure of the unit that creates a partition is a state of the host until a later start.
func makeFails(m machine) {
	m.reinstall(dynamicH100 + "[metrics]\ntextfile = true\n[[reservation]]\nunit = \"llm\"\nmake = \"3g.40gb\"\n")
	const unit = "dcm-make@3g.40gb_llm.service.service"
	m.knob("fail nvmlDeviceCreateGpuInstanceWithPlacement 999 0 1")
	m.exits(1, "systemctl start llm", "dependency")
	m.knob("")
	a := m.healthIs(status.Unmet, unit, "llm.service does not start without its partition")
	if !strings.Contains(a.Health.Summary, "a unit of dcm has failed") {
		m.t.Errorf("summary: got %s", a.Health.Summary)
	}
	m.until(`cat /run/dcm/metrics/dcm.prom; grep -F 'dcm_unit_failed{unit="` + unit + `"} 1' /run/dcm/metrics/dcm.prom`)
	m.run("systemctl --failed --plain --no-legend | grep -F " + unit)
	m.run(starts)
	m.until("dcm status")

	// A panic, here a kill, for a lease, and a kill of the guard.
	m.knob("hang nvmlGpuInstanceCreateComputeInstance")
	m.run("setsid dcm run --make 1g.10gb -- true >/dev/null 2>&1 </dev/null & " + waitFor("systemctl list-units --plain --no-legend \"dcm-make@lease*\" | grep -q activating && ls /dev/dcm-made | grep -q 1g.10gb"))
	m.run("systemctl kill --signal=KILL 'dcm-make@lease*'")
	m.knob("")
	m.until(`dcm status --json; dcm status --json | grep -q '"unit-failed"'`)
	m.run("systemctl reset-failed 'dcm-make@lease*'")
	m.until("dcm status")
}
