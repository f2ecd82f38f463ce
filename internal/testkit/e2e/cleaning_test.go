package e2e_test

import (
	"encoding/json"
	"fmt"
	"strings"

	"dcm/internal/testkit/sim"
)

// cleanedAfterLease: the partitions of a lease are cleaned when it has ended, before another lease gets them. A failure
// is in the status, and leases take such a partition last or not at all. 6 of 64 partitions are reserved.
func cleanedAfterLease(m machine) {
	const free = 58
	m.reserve("cpx-fast", 3)
	before := m.run("cat " + settings)
	shares := "\n[leases]\nshares = 2\n"
	m.put(settings, before+shares)
	m.run("systemctl restart dcm; dcm use cpx-fast")
	all := fmt.Sprintf("dcm run -n %d ", free)
	m.run(all + "-- true")
	m.cleaned(0) // an older kernel
	m.run("dcm-sim cleaner on; " + all + "-- true && " + all + "-- true")
	m.cleaned(2 * free)
	m.run("dcm run --share 2 -- dcm run --share 2 -- true") // the second one shares the partition, which is held
	m.cleaned(2*free + 1)

	var dry struct{ Partitions []string }
	read := func() string {
		if err := json.Unmarshal([]byte(m.run("dcm run --dry-run --json")), &dry); err != nil || len(dry.Partitions) != 1 {
			m.t.Fatalf("dry run: %v, %+v", err, dry)
		}
		return dry.Partitions[0]
	}
	name := read()
	unit := "dcm-clean@" + name + ".service"
	fails := "dcm-sim fault --op clean --errno EPERM; dcm run -- true"
	m.run(fails)
	m.until("systemctl is-failed --quiet '" + unit + "'")
	m.until("dcm status | grep -F 'was not cleaned'")
	m.exits(1, "dcm status", unit, name+" was not cleaned after its last user")
	if again := read(); again == name {
		m.t.Errorf("the next lease gets %s, which was not cleaned", again)
	}
	m.exits(0, all+"-- true", name+" was not cleaned after its last user")
	m.until("! systemctl is-failed --quiet '" + unit + "'") // cleaned after this lease
	m.until("! dcm status | grep -F \"was not cleaned\"")

	m.put(settings, before+shares+"clean = \"required\"\n")
	m.run("systemctl reload dcm; " + fails)
	m.until("systemctl is-failed --quiet '" + unit + "'")
	m.exits(75, all+"-- true", unit+" has failed")
	m.run("systemctl start '" + unit + "'")
	m.until("! systemctl is-failed --quiet '" + unit + "'")
	m.run(all + "-- true")
	m.put(settings, before)
	m.run("systemctl reload dcm; dcm-sim cleaner off")
}

// cleaned checks how many cleanings the driver has made, when all have ended.
func (m machine) cleaned(want int) {
	m.t.Helper()
	m.until("! systemctl list-units --all --no-legend 'dcm-clean@*' | grep -q .")
	var s sim.State
	if err := json.Unmarshal([]byte(m.run("dcm-sim state")), &s); err != nil {
		m.t.Fatal(err)
	}
	got, text := 0, []string{}
	for _, g := range s.GPUs {
		for _, n := range g.Cleaned {
			got += n
		}
		text = append(text, fmt.Sprint(g.Cleaned))
	}
	if got != want {
		m.t.Errorf("%d partitions were cleaned, want %d: %s", got, want, strings.Join(text, " "))
	}
}
