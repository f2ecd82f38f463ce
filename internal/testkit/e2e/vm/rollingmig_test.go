package vm_test

import (
	"bufio"
	"encoding/json"
	"maps"
	"strings"

	"github.com/google/go-cmp/cmp"
)

// eachInstance reserves an instance of both GPUs for each of three services. The instances of two of them are
// in both profiles.
const eachInstance = `[apply]
unit-of-change = "gpu"
settle-time = "1s"
[[reservation]]
unit = "kept@a"
partitions = 1
mode = "3g.40gb"
gpus = [0]
[[reservation]]
unit = "wide@a"
partitions = 1
mode = "2g.20gb"
gpus = [0]
[[reservation]]
unit = "moved@a"
partitions = 1
gpus = [0]
[[reservation]]
unit = "kept@b"
partitions = 1
mode = "3g.40gb"
gpus = [1]
[[reservation]]
unit = "wide@b"
partitions = 1
mode = "2g.20gb"
gpus = [1]
[[reservation]]
unit = "moved@b"
partitions = 1
gpus = [1]
[profiles.before]
mig = { "3g.40gb" = 1, "2g.20gb" = 1, "1g.10gb" = 2 }
[profiles.after]
mig = { "3g.40gb" = 1, "2g.20gb" = 1, "1g.20gb" = 1 }
`

const oneDown = `[[budget]]
units = ["kept@*", "wide@*", "moved@*"]
max-down = 1
`

// rollingMIG: a change of the instances of two GPUs restarts one service after the other, with a budget and
// with --rolling. The services whose instances stay continue.
func rollingMIG(m machine) {
	m.run("systemctl disable --now " + clients + "; systemctl reset-failed")
	for _, name := range []string{"kept", "wide", "moved"} {
		m.put("/etc/systemd/system/"+name+"@.service", holdsInstance)
	}
	kept := []string{"kept@a", "kept@b", "wide@a", "wide@b"}
	m.put("/etc/dcm/dcm.toml", "profile = \"before\"\n"+eachInstance+oneDown)
	m.run("systemctl daemon-reload; systemctl restart dcm; dcm apply; systemctl start moved@a moved@b " + strings.Join(kept, " "))
	m.expect(instances, "8")
	m.oneAfterAnother("dcm apply after", kept)
	m.expect(instances, "6")

	m.put("/etc/dcm/dcm.toml", "profile = \"after\"\n"+eachInstance)
	m.run("systemctl reload dcm")
	m.oneAfterAnother("dcm apply before --rolling", kept)
	m.expect(instances, "8")
	m.expect("systemctl --failed --quiet --plain --no-legend", "")
}

// oneAfterAnother expects that a command restarts moved@a and moved@b, once each and never together, and
// leaves the others as they are.
func (m machine) oneAfterAnother(command string, others []string) {
	m.t.Helper()
	before := m.services(append([]string{"moved@a", "moved@b"}, others...))
	cursor := m.cursor()
	m.run(command)
	after := m.services(append([]string{"moved@a", "moved@b"}, others...))
	most, stops := mostDown(m.run(`journalctl --quiet --after-cursor="$1" _PID=1 --output=json`, cursor))
	if diff := cmp.Diff(map[string]int{"moved@a.service": 1, "moved@b.service": 1}, stops); diff != "" || most != 1 {
		m.t.Errorf("%s: %d services down at the same time, want 1; stops (-want +got):\n%s", command, most, diff)
	}
	for unit := range maps.Keys(before) {
		if moved := strings.HasPrefix(unit, "moved@"); moved == (before[unit] == after[unit]) {
			m.t.Errorf("%s: %s before:\n%s\nafter:\n%s", command, unit, before[unit], after[unit])
		}
	}
}

// cursor returns the position of the last entry of the journal.
func (m machine) cursor() string {
	m.t.Helper()
	return m.run(`journalctl --quiet --lines=1 --output=cat --show-cursor | sed -n 's/^-- cursor: //p'`)
}

// mostDown returns how many services were down at the same time according to entries of PID 1 in JSON, and
// how often each was stopped.
func mostDown(entries string) (most int, stops map[string]int) {
	const stopping, started = "de5b426a63be47a7b6ac3eaac82e2f6f", "39f53479d3a045ac8e11786248231fbf"
	down := make(map[string]bool)
	stops = make(map[string]int)
	lines := bufio.NewScanner(strings.NewReader(entries))
	lines.Buffer(nil, len(entries)+1)
	for lines.Scan() {
		var e struct {
			Unit string `json:"UNIT"`
			ID   string `json:"MESSAGE_ID"`
		}
		if json.Unmarshal(lines.Bytes(), &e) != nil || !strings.Contains(e.Unit, "@") {
			continue // an entry with a binary field is not of these services
		}
		if !strings.HasPrefix(e.Unit, "kept@") && !strings.HasPrefix(e.Unit, "wide@") && !strings.HasPrefix(e.Unit, "moved@") {
			continue
		}
		switch e.ID {
		case stopping:
			down[e.Unit] = true
			stops[e.Unit]++
		case started:
			delete(down, e.Unit)
		}
		most = max(most, len(down))
	}
	return most, stops
}
