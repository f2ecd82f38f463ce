package e2e_test

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	"dcm/internal/frontends/status"
	"dcm/internal/testkit/e2e"
)

// way is a geometry: the number of instances of each profile. An empty one means that MIG is off.
type way map[string]int

func (w way) String() string {
	if w == nil {
		return `"off"`
	}
	var out []string
	for _, profile := range slices.Sorted(maps.Keys(w)) {
		out = append(out, fmt.Sprintf("%q = %d", profile, w[profile]))
	}
	return "{ " + strings.Join(out, ", ") + " }"
}

// of returns the geometry of a GPU.
func of(g status.GPU) way {
	if g.Mode.Whole == "MIG off" {
		return nil
	}
	w := make(way)
	for _, s := range g.Mode.Slices {
		for profile := range strings.SplitSeq(s, "/") {
			w[profile]++
		}
	}
	return w
}

// geometries returns the configuration of NVIDIA's scenarios: "off" and the given geometries.
func geometries(selected string, all map[string]way) string {
	text := "profile = \"" + selected + "\"\n\n[clients]\nunits = [\"gpuagent\", \"amd-metrics-exporter\"]\n\n[profiles.off]\nmig = \"off\"\n"
	for _, name := range slices.Sorted(maps.Keys(all)) {
		text += "[profiles." + name + "]\nmig = " + all[name].String() + "\n"
	}
	return text
}

// of80 are geometries of a board with seven slices and 80 GB.
func of80() map[string]way {
	return map[string]way{
		"small": {"1g.10gb": 7}, "large": {"7g.80gb": 1}, "mixed": {"3g.40gb": 1, "2g.20gb": 1, "1g.10gb": 2},
		"double": {"1g.20gb": 4}, "shared": {"4g.40gb": 1, "1c.3g.40gb": 3}, "empty": {},
	}
}

// boards returns at least five geometries of each kind of node.
func boards() map[string]map[string]way {
	return map[string]map[string]way{
		"h100-8":         of80(),
		"a100-8":         {"small": {"1g.10gb": 7}, "large": {"7g.80gb": 1}, "halves": {"3g.40gb": 2}, "thirds": {"2g.20gb": 3}, "media": {"1g.10gb": 6, "1g.10gb+me": 1}},
		"a30-4":          {"small": {"1g.6gb": 4}, "half": {"2g.12gb": 2}, "large": {"4g.24gb": 1}, "mixed": {"2g.12gb": 1, "1g.6gb": 2}, "media": {"1g.6gb": 3, "1g.6gb+me": 1}},
		"b200-8":         {"small": {"1g.23gb": 7}, "half": {"3g.90gb": 2}, "large": {"7g.180gb": 1}, "double": {"1g.45gb": 4}, "mixed": {"4g.90gb": 1, "2g.45gb": 1, "1g.23gb": 1}},
		"rtx-pro-6000-4": {"small": {"1g.24gb": 4}, "half": {"2g.48gb": 2}, "large": {"4g.96gb": 1}, "graphics": {"1g.24gb+gfx": 4}, "media": {"1g.24gb+me.all": 1, "1g.24gb-me": 3}},
	}
}

// nvidias are the GPUs with MIG, in PCI order.
func (m machine) nvidias() []status.GPU {
	m.t.Helper()
	var a status.Account
	for range 20 { // on a busy machine a look may take longer than dcm status waits for one
		if err := json.Unmarshal([]byte(m.try("dcm status --json").Stdout), &a); err != nil {
			m.t.Fatal(err)
		}
		if len(a.GPUs) > 0 {
			break
		}
	}
	return slices.DeleteFunc(slices.Clone(a.GPUs), func(g status.GPU) bool { return g.Vendor != "nvidia" })
}

// mig returns the geometry of each of them.
func (m machine) mig() []string {
	m.t.Helper()
	var out []string
	for _, g := range m.nvidias() {
		out = append(out, g.Mode.String())
	}
	return out
}

// divided expects all GPUs to have the geometry, by dcm's status and by the library's state.
func (m machine) divided(want string, instances int) {
	m.t.Helper()
	got := m.mig()
	if len(got) == 0 || slices.ContainsFunc(got, func(g string) bool { return g != want }) {
		m.t.Errorf("the GPUs are %q, want each %s", got, want)
	}
	if n := m.run("grep -c '^gi ' " + e2e.MIGState + " || :"); n != fmt.Sprint(instances*len(got)) {
		m.t.Errorf("%s instances, want %d on each of %d", n, instances, len(got))
	}
}

// chosen applies a geometry and waits for the clients.
func (m machine) chosen(name string, all map[string]way) {
	m.t.Helper()
	m.run("rm -f /run/dcm/dcm.toml.d/*")
	m.put(settings, geometries(name, all))
	m.run("systemctl restart dcm && systemctl start gpuagent amd-metrics-exporter")
}
