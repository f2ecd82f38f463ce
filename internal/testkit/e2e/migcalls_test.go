package e2e_test

import (
	"strings"

	"dcm/internal/engine/runstate"
)

// called is the number of calls of the library by unit, GPU and function. Calls for no GPU are
// under "-".
type called map[string]map[string]map[string]int

// counting counts the calls of the library during a function. It waits for processes that have
// loaded the library.
func (m machine) counting(do func()) called {
	m.t.Helper()
	const log = "/run/dcm/calls"
	m.run("rm -f " + log)
	m.knob("log " + log)
	do()
	m.knob("")
	lines := m.until(`for pid in $(sed -n 's/^nvmlInit_v2 .* //p' $1); do [ ! -e /proc/$pid ] || exit 1; done; cat $1; rm $1`, log) + "\n"
	out := make(called)
	for line := range strings.Lines(lines) {
		f := strings.Fields(line)
		if len(f) != 4 {
			m.t.Fatalf("%q", line)
		}
		if f[2] == "dcm.service" && !strings.Contains(lines, "nvmlShutdown - "+f[2]+" "+f[3]+"\n") {
			continue
		}
		if out[f[2]] == nil {
			out[f[2]] = make(map[string]map[string]int)
		}
		if out[f[2]][f[1]] == nil {
			out[f[2]][f[1]] = make(map[string]int)
		}
		out[f[2]][f[1]][f[0]]++
	}
	return out
}

// sums returns how often a unit loaded the library and inspected a GPU, and all its calls for that GPU.
func (c called) sums(unit, gpu string) (loads, looks, calls int) {
	for _, n := range c[unit][gpu] {
		calls += n
	}
	return c[unit]["-"]["nvmlInit_v2"], c[unit][gpu]["nvmlDeviceGetHandleByPciBusId_v2"], calls
}

// migCounted counts the calls of runs. An inspection loads the library once for all GPUs. A run
// without a change inspects once, as does the daemon. A run that changes one GPU calls
// changing functions for that GPU only.
func migCounted(m machine) {
	m.chosen("mixed", of80())
	m.applied("mixed")
	gpus := m.nvidias()
	first, third := gpus[0].Address, gpus[2].Address
	const daemon, oneshot = "dcm.service", "dcm-apply.service"
	for _, s := range []struct {
		what  string
		do    func()
		looks map[string]int // maximum numbers: the daemon may inspect once more
	}{
		{"dcm apply without changes", func() { m.run("dcm apply") }, map[string]int{daemon: 3}},
		{"restart of dcm-apply without changes", func() { m.run("systemctl restart dcm-apply; dcm apply") }, map[string]int{daemon: 5, oneshot: 1}},
		{"restart of dcm without changes", func() { m.run("systemctl restart dcm") }, map[string]int{daemon: 3}},
	} {
		c := m.counting(s.do)
		for unit := range c {
			loads, looks, calls := c.sums(unit, first)
			m.t.Logf("%s: %s: %d loads of the library for %d inspections, with %d calls for each GPU", s.what, unit, loads, looks, calls)
			if loads != looks || looks > s.looks[unit] {
				m.t.Errorf("%s: %s loads it %d times for %d looks, want one for each, at most %d", s.what, unit, loads, looks, s.looks[unit])
			}
		}
		if loads, _, _ := c.sums(daemon, first); loads == 0 {
			m.t.Errorf("%s: want counted calls, got %v", s.what, c)
		}
	}
	c := m.counting(func() { // includes the edit, which the daemon notices
		m.put(settings, geometries("one", of80())+"[profiles.one]\n[[profiles.one.group]]\ngpus = [2]\nmig = { \"1g.10gb\" = 7 }\n")
		m.run("dcm apply")
	})
	_, looks, calls := c.sums(oneshot, first)
	all, own, ownCalls := c.sums(oneshot, third)
	m.t.Logf("change of one of eight GPUs: %d loads; %d inspections with %d calls for each GPU; %d loads with %d calls for the changed GPU", all, looks, calls, all-looks, ownCalls-calls)
	run := m.lastRun()
	if run.Result != runstate.Applied || len(run.Steps) != 2 || all != looks+len(run.Steps) || own != looks+2*len(run.Steps) {
		m.t.Errorf("result %s; %d loads for %d inspections and %d steps, %d handles of the changed GPU", run.Result, all, looks, len(run.Steps), own)
	}
	for gpu, functions := range c[oneshot] {
		for f := range functions {
			changes := strings.Contains(f, "Create") || strings.Contains(f, "Destroy") || strings.Contains(f, "Set")
			if changes && gpu != third {
				m.t.Errorf("%s was called for %s", f, gpu)
			}
		}
	}
}
