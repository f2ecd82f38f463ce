package e2e_test

import (
	"encoding/json"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"
	"testing"

	"dcm/internal/testkit/e2e"
	"dcm/internal/testkit/surface"
)

// recorded are the commands whose JSON output is recorded: on a node with a profile, reservations, a lease,
// a waiting request and a process outside of dcm.
var recorded = []string{
	"dcm status", "dcm gpus", "dcm partitions", "dcm profiles", "dcm holders", "dcm holders --units", "dcm plan spx-fast", "dcm plan --node mi300x-8 cpx-fast",
	"dcm report", "dcm report --list", "dcm queue", "dcm leases", "dcm usage", "dcm guard status", "dcm run -n 2 --dry-run", "dcm top -n 1",
}

// recordSurface compares the output of a running node with the recorded surface. See package surface.
func recordSurface(t *testing.T, p product) {
	t.Parallel()
	m := installWith(t, e2e.Trixie(), p, driverless())
	for _, name := range []string{"alpha", "beta@", "gamma"} {
		m.put("/etc/systemd/system/"+name+".service", holder)
	}
	m.run("systemctl daemon-reload; systemctl add-wants multi-user.target alpha beta@1 gamma; useradd --create-home --groups dcm ada; mkdir -p /var/lib/prometheus/node-exporter")
	m.reserve("cpx-fast", 3)
	m.run("systemctl restart dcm; systemctl start alpha beta@1 gamma amd-metrics-exporter gpuagent")
	m.lent()
	m.run("setsid dcm run -n 55 --wait -- true >/run/waiter 2>&1 </dev/null & " + queued(1))

	// The exit status may depend on the result, such as a plan that a lease blocks.
	var shapes strings.Builder
	for _, command := range recorded {
		fmt.Fprintf(&shapes, "==> %s --json\n", command)
		var v any
		if err := json.Unmarshal([]byte(m.try(command+" --json").Stdout), &v); err != nil {
			t.Fatalf("%s: %v", command, err)
		}
		for _, line := range surface.Shape(v) {
			shapes.WriteString(line + "\n")
		}
	}
	surface.Hold(t, "json.txt", shapes.String())
	surface.Hold(t, "dbus.txt", m.introspected())

	names := make(map[string]bool)
	for _, found := range regexp.MustCompile(`(?m)^(# TYPE )?(dcm_[a-z_]+)(\{[^}]*\}| [a-z]+)?`).FindAllStringSubmatch(m.run("cat /run/dcm/metrics/dcm.prom && dcm partitions --metrics"), -1) {
		labels := regexp.MustCompile(`"[^"]*"`).ReplaceAllString(found[3], "")
		names[found[2]+labels] = true
	}
	surface.Hold(t, "metrics.txt", strings.Join(slices.Sorted(maps.Keys(names)), "\n")+"\n")
}

// introspected returns the descriptions of dcm's objects without the standard interfaces.
func (m machine) introspected() string {
	m.t.Helper()
	var b strings.Builder
	for _, object := range []string{"/org/deviceconfig/Manager1", oneGPU} {
		xml := m.run("busctl introspect --xml-interface " + busName + " " + object)
		for _, i := range regexp.MustCompile(`(?s)<interface name="org\.deviceconfig.*?</interface>`).FindAllString(xml, -1) {
			fmt.Fprintf(&b, "==> %s\n%s\n", object, strings.ReplaceAll(strings.ReplaceAll(i, "\n", ""), "><", ">\n<"))
		}
	}
	return b.String()
}
