package e2e_test

import (
	"flag"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"dcm/internal/testkit/e2e"
	"dcm/internal/testkit/pid1"
)

var (
	graphs     = flag.Int("graphs", 100, "how many random graphs of units the model of PID 1 is compared with")
	firstGraph = flag.Int("first-graph", 1, "the first of them")
)

// TestPID1 compares the model of PID 1 with systemd 252, 257 and 262: random graphs of units, random jobs and
// failures, state by state.
func TestPID1(t *testing.T) {
	t.Parallel()
	requireContainers(t)
	agent := build(t, "./agent")
	for version, recipe := range map[int]e2e.Recipe{252: e2e.Bookworm(), 257: e2e.Trixie(), 262: e2e.Forky()} {
		t.Run(fmt.Sprint(version), func(t *testing.T) {
			t.Parallel()
			comparePID1(boot(t, recipe, agent, nil), version)
		})
	}
}

func comparePID1(m machine, version int) {
	var all []pid1.Graph
	var units []string
	var write strings.Builder
	steps := make([]strings.Builder, 5)
	for n := range *graphs {
		g := pid1.RandomGraph(uint64(*firstGraph+n), fmt.Sprintf("g%d-", n))
		all = append(all, g)
		for _, f := range g.Files {
			units = append(units, f.Name)
			fmt.Fprintf(&write, "cat >/run/systemd/system/%s <<'E'\n%sE\n", f.Name, f.Text())
		}
		for i, s := range g.Steps {
			fmt.Fprintln(&steps[i], s.Script())
		}
	}
	// The target refers to the units, so that systemd does not unload them.
	fmt.Fprintf(&write, "printf '[Unit]\\nAfter=%s\\n' >/run/systemd/system/pin.target\nsystemctl daemon-reload && systemctl start pin.target\n", strings.Join(units, " "))
	m.script(write.String())
	ids := make(map[string]string)
	want := make([][][]map[string]pid1.Show, len(all)) // by graph: the possible histories
	for n, g := range all {
		want[n] = [][]map[string]pid1.Show{g.Play(version, false), g.Play(version, true)}
	}
	wrong := 0
	for i := range steps {
		m.script(steps[i].String() + ":\n")
		m.until(`test -z "$(systemctl list-jobs --no-legend 'g*')" && ! systemctl list-units --all --plain --no-legend 'g*' | grep -v ' auto-restart-queued ' | grep -qE ' (activating|deactivating|reloading) '`)
		got := shown(m.run("systemctl show --property=Id,ActiveState,SubState,Result,NRestarts,InvocationID 'g*' --all"), ids)
		for n, g := range all {
			possible := slices.DeleteFunc(slices.Clone(want[n]), func(h []map[string]pid1.Show) bool { return differs(h[i], got) != "" })
			if len(want[n]) > 0 && len(possible) == 0 {
				wrong++
				f := differs(want[n][0][i], got)
				m.t.Errorf("graph %d, step %d (%v of %v): %s: model %+v, systemd %+v\n%s", *firstGraph+n, i, g.Steps[i], g.Steps[:i+1], f, want[n][0][i][f], got[f], texts(g))
			}
			want[n] = possible
		}
	}
	m.t.Logf("%d graphs, %d units, %d states compared; %d graphs differ", len(all), len(units), len(units)*len(steps), wrong)
}

// differs returns a unit that has another state than in the model, "" if there is none.
func differs(want, got map[string]pid1.Show) string {
	for _, name := range slices.Sorted(maps.Keys(want)) {
		if want[name] != got[name] {
			return name
		}
	}
	return ""
}

// script runs a shell script that may be long.
func (m machine) script(text string) {
	m.t.Helper()
	m.put("/run/script", text)
	m.run("sh /run/script")
}

// shown parses the output of systemctl show, and updates the invocations.
func shown(text string, ids map[string]string) map[string]pid1.Show {
	out := make(map[string]pid1.Show)
	for block := range strings.SplitSeq(text, "\n\n") {
		v := make(map[string]string)
		for line := range strings.Lines(block) {
			key, value, _ := strings.Cut(strings.TrimSpace(line), "=")
			v[key] = value
		}
		name := v["Id"]
		out[name] = pid1.Show{Active: v["ActiveState"], Sub: v["SubState"], Result: v["Result"], Restarts: v["NRestarts"], New: v["InvocationID"] != ids[name]}
		ids[name] = v["InvocationID"]
	}
	return out
}

func texts(g pid1.Graph) string {
	var b strings.Builder
	for _, f := range g.Files {
		fmt.Fprintf(&b, "# %s\n%s", f.Name, f.Text())
	}
	return b.String()
}
