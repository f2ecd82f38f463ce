package e2e_test

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"

	"dcm/internal/engine/runstate"
)

// inRounds is eachGPU with a budget for the workers.
func inRounds(profile string, maxDown int) string {
	return eachGPU(profile) + fmt.Sprintf("[[budget]]\nunits = \"worker@*\"\nmax-down = %d\n[apply]\nunit-of-change = \"gpu\"\nsettle-time = \"1s\"\n", maxDown)
}

// MESSAGE_ID of systemd, see systemd.journal-fields(7) and journalctl --catalog.
const (
	unitStopping = "de5b426a63be47a7b6ac3eaac82e2f6f"
	unitStarted  = "39f53479d3a045ac8e11786248231fbf"
)

// mostDown returns how many workers were down at the same time by the journal entries, and how often each
// was stopped.
func mostDown(entries []entry) (most int, stops map[string]int) {
	down := make(map[string]bool)
	stops = make(map[string]int)
	for _, e := range entries {
		unit, _ := e["UNIT"].(string)
		if !strings.HasPrefix(unit, "worker@") {
			continue
		}
		switch e["MESSAGE_ID"] {
		case unitStopping:
			down[unit] = true
			stops[unit]++
		case unitStarted:
			delete(down, unit)
		}
		most = max(most, len(down))
	}
	return most, stops
}

// budgetKept: random changes of some of eight GPUs never have three workers down, and restart each worker
// of a changed GPU once.
func budgetKept(m machine) {
	const changes = 24
	seed := rand.Uint64()
	m.t.Logf("seed %d", seed)
	r := rand.New(rand.NewPCG(seed, 0))
	m.put(settings, inRounds("same", 2))
	m.run("systemctl reload dcm; dcm use same")
	now := make(map[int]bool)
	for n := range changes {
		var gpus []int
		want := make(map[int]bool)
		for i := range 8 {
			if r.IntN(2) == 0 {
				gpus, want[i] = append(gpus, i), true
			}
		}
		changed := 0
		for i := range 8 {
			if now[i] != want[i] {
				changed++
			}
		}
		name := fmt.Sprintf("p%d", n)
		text := inRounds(name, 2)
		if len(gpus) > 0 && len(gpus) < 8 {
			text += split(name, gpus...)
		} else {
			text += fmt.Sprintf("[profiles.%s]\ncompute = %q\nmemory = \"NPS1\"\n", name, map[bool]string{true: "CPX", false: "SPX"}[len(gpus) == 8])
		}
		entries := m.newEntries("_PID=1")
		m.put(settings, text)
		m.exits(0, "dcm apply")
		most, stops := mostDown(entries())
		if most > 2 || len(stops) != changed || slices.ContainsFunc(slices.Collect(maps.Values(stops)), func(n int) bool { return n != 1 }) {
			m.t.Errorf("change %d of GPUs %v: %d workers down at the same time, stops %v; want at most 2, and one stop each of %d", n, gpus, most, stops, changed)
		}
		now = want
	}
	m.exits(0, "dcm status")
}

// neverReady: a client that does not become ready fails, and uses up the budget. No further GPU changes
// until it is up.
func neverReady(m machine) {
	m.put(settings, inRounds("same", 1)+split("pair", 0, 1))
	m.run("systemctl reload dcm; dcm use same")
	m.put("/etc/systemd/system/worker@0.service.d/50-ready.conf", "[Service]\nType=notify\nTimeoutStartSec=5s\n")
	m.run("systemctl daemon-reload")
	kept := m.units(workers(0)...)
	m.exits(75, "dcm use pair", "worker@0.service")
	m.untouched(kept)
	if s := m.state(); s.Progress == nil || *s.Progress != (runstate.Progress{Done: 7, Total: 8}) {
		m.t.Errorf("progress %v, want 7 of 8 GPUs", s.Progress)
	}
	m.exits(2, "dcm status", "7 of 8 GPUs", "worker@0.service (failed)", "max-down is 1")
	m.run("rm -r /etc/systemd/system/worker@0.service.d; systemctl daemon-reload; systemctl restart worker@0")
	m.await("/run/dcm/state.json", `"phase": "in-sync"`, `"profile": "pair"`)
	m.exits(0, "dcm status")
}

// oneAfterAnother: --rolling needs no budget. A client of two changing GPUs starts once.
func oneAfterAnother(m machine) {
	config := strings.Replace(eachGPU("same"), "unit = \"worker@2\"\ngpus = [2]", "unit = \"worker@2\"\ngpus = [2, 6]", 1) +
		"[apply]\nunit-of-change = \"gpu\"\nsettle-time = \"1s\"\n" + split("three", 1, 2, 6)
	m.put(settings, config)
	m.run("systemctl reload dcm; dcm use same")
	entries := m.newEntries("_PID=1")
	m.exits(0, "dcm apply three --rolling")
	most, stops := mostDown(entries())
	if most != 2 || len(stops) != 3 || stops["worker@2.service"] != 1 {
		m.t.Errorf("%d workers down at the same time, stops %v; want 2, and one stop each of 1, 2 and 6", most, stops)
	}
	m.exits(64, "dcm apply --rolling --ignore-budget")
	m.exits(1, "dcm apply cpx-nps4 --rolling", "the change concerns all GPUs, and cannot be made one GPU after another")
	m.run("dcm apply --clear")
}

// budgetRefuses: a memory mode stops all workers, which a budget does not permit unless it is ignored.
func budgetRefuses(m machine) {
	m.put(settings, inRounds("same", 2))
	m.run("systemctl reload dcm; dcm use same")
	kept := m.units(workers()...)
	m.exits(1, "dcm apply cpx-nps4", "budget of worker@*.service: the change concerns all GPUs and stops 8 of these units (max-down is 2)", "--ignore-budget")
	m.untouched(kept)
	m.exits(0, "dcm apply cpx-nps4 --ignore-budget")
	m.bounced(kept)
	m.exits(0, "dcm apply --clear --ignore-budget")
	m.exits(0, "dcm status")
}
