package e2e_test

import (
	"slices"
	"strings"

	"dcm/internal/engine/runstate"
	"dcm/internal/frontends/status"
)

// migStays: a change of a MIG GPU leaves the instances that the new geometry has too, with
// their UUIDs and device nodes. A process that uses one of them keeps it open and does not
// block the change.
func migStays(m machine) {
	ways := of80()
	ways["changed"] = way{"3g.40gb": 1, "1g.20gb": 1, "1g.10gb": 2}
	m.chosen("mixed", ways)
	m.applied("mixed")
	const gpu = "0000:43:00.0"
	before := m.partsOf(gpu)
	list := decode[runstate.Partitions](m, "partitions.json").Parts
	nodes := list[slices.IndexFunc(list, func(p runstate.Part) bool { return p.Render == before["3g.40gb"].RenderNode })]
	m.run("rm -f /run/held")
	m.run(`systemd-run --unit=training sh -c 'exec 3<$0 4<$1 5<$2; echo held >/run/held; exec sleep infinity' $1 $2 $3`, nodes.Render, nodes.Companions[0], nodes.Companions[1])
	m.await("/run/held", "held")
	const open = `readlink /proc/$(systemctl show -P MainPID training)/fd/[345]`
	files, pid := m.run(open), m.show("training.service", "MainPID")["MainPID"]

	plan := m.exits(2, "dcm plan changed")
	if want := "destroy 2g.20gb@0 of 8 GPUs, keep 1g.10gb@2, 1g.10gb@3, 3g.40gb@4: "; strings.Count(plan.Stdout, want) != 1 || !strings.Contains(plan.Stdout, " that stay:\n  "+nodes.Name+" 3g.40gb: training.service\n") {
		m.t.Errorf("dcm plan: want the kept instances and their user, got\n%s", plan.Stdout)
	}
	m.run("dcm apply changed")
	m.applied("changed")
	m.divided("3g.40gb, 1g.20gb, 2 × 1g.10gb", 4)
	if run := m.lastRun(); run.Result != runstate.Applied || len(run.Steps) != 16 {
		m.t.Errorf("run: want applied with 16 steps, got %s with %d", run.Result, len(run.Steps))
	}
	if got := m.run(open); got != files || m.show("training.service", "MainPID")["MainPID"] != pid {
		m.t.Errorf("files of training.service: got %q, want %q of process %s", got, files, pid)
	}
	after := m.partsOf(gpu)
	for _, profile := range []string{"3g.40gb", "1g.10gb", "1g.10gb'"} {
		was, is := before[profile], after[profile]
		if was.DriverID == "" || was.DriverID != is.DriverID || was.RenderNode != is.RenderNode {
			m.t.Errorf("%s: UUID and node were %s, %s; now %s, %s", profile, was.DriverID, was.RenderNode, is.DriverID, is.RenderNode)
		}
		if cdi := m.run("cat /run/cdi/dcm.json"); !strings.Contains(cdi, was.RenderNode+`"`) {
			m.t.Errorf("CDI file: want %s, got\n%s", was.RenderNode, cdi)
		}
	}
	// The instance in use cannot be destroyed.
	if r := m.try("dcm apply small"); r.Code == 0 || !strings.Contains(r.Stdout+r.Stderr, "training.service") {
		m.t.Errorf("dcm apply of a geometry without the instance in use: exit status %d\n%s%s", r.Code, r.Stdout, r.Stderr)
	}
	m.divided("3g.40gb, 1g.20gb, 2 × 1g.10gb", 4)
	m.run("systemctl stop training; rm -f /run/held")
	m.applied("small")
	m.divided("7 × 1g.10gb", 7)
}

// partsOf returns the partitions of a GPU by profile. A second one of a profile has an apostrophe.
func (m machine) partsOf(gpu string) map[string]status.Part {
	m.t.Helper()
	out := make(map[string]status.Part)
	for _, p := range m.account().Parts {
		if p.GPU != gpu {
			continue
		}
		name := p.Mode
		for out[name].Name != "" {
			name += "'"
		}
		out[name] = p
	}
	return out
}
