package e2e_test

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"dcm/internal/engine/runstate"
	"dcm/internal/testkit/sim"
)

// usageSeen: each user can query the usage. dcm does not read it without a query: that reads the tables of all 64
// partitions. The counters at the start of a reserved service are those of its few partitions.
func usageSeen(m machine) {
	mine := m.mine("alpha")[0]
	listed := decode[runstate.Partitions](m, "partitions.json").Parts
	name := listed[slices.IndexFunc(listed, func(p runstate.Part) bool { return p.Render == mine })].Name
	pid := m.show("alpha.service", "MainPID")["MainPID"]
	before := m.usesRead()
	m.run("dcm status; dcm gpus; dcm status --json; systemctl reload dcm")
	if n := m.usesRead() - before; n >= len(listed) {
		m.t.Errorf("reads of the usage without a query: want those of some partitions at most, got %d", n)
	}
	use := func(busy, vram string) {
		m.run(fmt.Sprintf(`echo '{"partition":"%s","busy":%s,"pid":%s,"vram":%s}' >/run/dcm-sim/ctl/use`, name, busy, pid, vram))
	}
	use("63", "3221225472")
	var list []struct {
		Name      string   `json:"name"`
		Holders   []string `json:"holders"`
		Used      *uint64  `json:"memory_used_bytes"`
		Busy      *float64 `json:"busy_percent"`
		Processes []struct {
			PID  int    `json:"pid"`
			Unit string `json:"unit"`
			User string `json:"user"`
		} `json:"processes"`
	}
	text := m.run(ada + "dcm partitions --json")
	if err := json.Unmarshal([]byte(text), &list); err != nil || len(list) != 64 {
		m.t.Fatalf("partitions for a user: want 64, got %d: %v", len(list), err)
	}
	for _, p := range list {
		switch {
		case p.Used == nil || p.Busy == nil:
			m.t.Errorf("usage of %s for a user: want numbers", p.Name)
		case p.Name != name:
			if *p.Used != 0 || *p.Busy != 0 {
				m.t.Errorf("usage of a free partition: want none, got %+v", p)
			}
		case *p.Used != 3221225472 || *p.Busy != 63 || !slices.Equal(p.Holders, []string{"alpha.service"}) || len(p.Processes) != 1 ||
			fmt.Sprint(p.Processes[0].PID) != pid || p.Processes[0].Unit != "alpha.service" || p.Processes[0].User != "root":
			m.t.Errorf("usage: want that of alpha.service, got %+v", p)
		}
	}
	if text := m.run(ada + "dcm top --all --once --sort used"); !strings.HasPrefix(strings.Split(text, "\n")[2], name+" CPX/NPS1") || !strings.Contains(text, " alpha.service ") {
		m.t.Errorf("dcm top: want alpha's partition first, got:\n%s", text)
	}
	if text := m.run("dcm partitions --metrics"); !strings.Contains(text, `dcm_partition_busy_ratio{partition="`+name+`",gpu="`) || !strings.Contains(text, "} 0.63\n") {
		m.t.Errorf("metrics: want the busy ratio, got:\n%s", text)
	}
	use("0", "0")
	seen := m.usesRead()
	m.run("dcm status; dcm gpus; systemctl reload dcm")
	if n := m.usesRead(); seen-before < len(listed) || n-seen >= len(listed) {
		m.t.Errorf("reads of the usage: got %d with queries, and %d without one", seen-before, n-seen)
	}
}

// usesRead is the number of reads of the usage.
func (m machine) usesRead() int {
	m.t.Helper()
	var s sim.State
	if err := json.Unmarshal([]byte(m.run("dcm-sim state")), &s); err != nil {
		m.t.Fatal(err)
	}
	return s.UseReads
}
