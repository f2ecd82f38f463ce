package e2e_test

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"dcm/internal/testkit/e2e"
	"dcm/internal/testkit/e2e/remote"
	"dcm/internal/testkit/testdeadline"
)

// machine is a container in a test: what fails in it fails the test.
type machine struct {
	*e2e.Container
	t *testing.T
}

func boot(t *testing.T, recipe e2e.Recipe, agent string, seed e2e.Seed) machine {
	t.Helper()
	length := bootsInTier(t)
	root, err := recipe.Directory(t.Context(), t.Output())
	if err != nil {
		t.Fatal(err)
	}
	containerTurns.wait(t, length)
	timed(t)
	ctx, cancel := testdeadline.Context(t.Context(), waitTimeout)
	defer cancel()
	c, err := e2e.Boot(ctx, root, agent, seed)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := c.Close(); err != nil {
			t.Error(err)
		}
	})
	m := machine{c, t}
	m.countsProcessorTime(t)
	return m.diagnosed(t)
}

// countsProcessorTime logs how much processor time the container needs during the test.
func (m machine) countsProcessorTime(t *testing.T) {
	before, err := m.ProcessorTime()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		after, err := m.ProcessorTime()
		if err != nil {
			t.Error(err)
		}
		t.Logf("processor time in the container: %.1f s", (after - before).Seconds())
	})
}

// in returns the machine for a subtest, or skips the subtest if it is in another tier. If the subtest fails, it
// logs the machine's state.
func (m machine) in(t *testing.T) machine {
	t.Helper()
	inTier(t)
	m.countsProcessorTime(t)
	return m.diagnosed(t)
}

// diagnosed logs the machine's state if the test fails.
func (m machine) diagnosed(t *testing.T) machine {
	t.Cleanup(func() {
		if t.Failed() {
			ctx, cancel := testdeadline.Context(context.Background(), waitTimeout)
			defer cancel()
			m.Diagnose(ctx, t.Output())
		}
	})
	return machine{m.Container, t}
}

// try runs a shell command. Any exit status is accepted.
func (m machine) try(script string, args ...string) remote.Result {
	m.t.Helper()
	ctx, cancel := testdeadline.Context(m.t.Context(), waitTimeout)
	defer cancel()
	r, err := m.Run(ctx, append([]string{"sh", "-c", script, "sh"}, args...)...)
	if err != nil {
		m.t.Fatalf("%v\n%s%s", err, r.Stdout, r.Stderr)
	}
	return r
}

// run runs a shell command that must succeed and returns its trimmed output.
func (m machine) run(script string, args ...string) string {
	m.t.Helper()
	r := m.try(script, args...)
	if r.Code != 0 {
		m.t.Fatalf("%s %q: exit status %d\n%s%s", script, args, r.Code, r.Stdout, r.Stderr)
	}
	return strings.TrimSpace(r.Stdout)
}

// await waits until a file contains all of the texts.
func (m machine) await(file string, texts ...string) {
	m.t.Helper()
	ctx, cancel := testdeadline.Context(m.t.Context(), waitTimeout)
	defer cancel()
	if r, err := m.Run(ctx, append([]string{"e2e-agent", "await", file}, texts...)...); err != nil || r.Code != 0 {
		m.t.Fatalf("%s does not contain %q: %v %s", file, texts, err, r.Stderr)
	}
}

// until waits until a shell script succeeds, and returns its trimmed output.
func (m machine) until(script string, args ...string) string {
	m.t.Helper()
	ctx, cancel := testdeadline.Context(m.t.Context(), waitTimeout)
	defer cancel()
	r, err := m.Run(ctx, append([]string{"e2e-agent", "await-command", script}, args...)...)
	if err != nil || r.Code != 0 {
		last := m.try(script, args...)
		m.t.Fatalf("%s %q does not succeed (%v): exit status %d\n%s%s%s", script, args, err, last.Code, last.Stdout, last.Stderr, r.Stderr)
	}
	return strings.TrimSpace(r.Stdout)
}

// waitFor returns a shell command that does the same. The condition has no single quotes.
func waitFor(condition string) string { return "e2e-agent await-command '" + condition + "'" }

// noLeases is the condition that no lease is left. systemd removes a scope some time after
// its last process has ended.
const noLeases = `! systemctl list-units --plain --no-legend "dcm-*.scope" | grep -q .`

func (m machine) put(path, content string) {
	m.t.Helper()
	ctx, cancel := testdeadline.Context(m.t.Context(), waitTimeout)
	defer cancel()
	if err := m.Put(ctx, path, []byte(content), 0o644); err != nil {
		m.t.Fatal(err)
	}
}

func (m machine) reboot() {
	m.t.Helper()
	ctx, cancel := testdeadline.Context(m.t.Context(), waitTimeout)
	defer cancel()
	if err := m.Reboot(ctx); err != nil {
		m.t.Fatalf("%v\n%s", err, m.Console())
	}
}

// show returns properties of a unit, see systemctl(1).
func (m machine) show(unit string, properties ...string) map[string]string {
	m.t.Helper()
	text := m.run(`systemctl show --property="$2" -- "$1"`, unit, strings.Join(properties, ","))
	values := make(map[string]string)
	for line := range strings.Lines(text) {
		key, value, _ := strings.Cut(strings.TrimSpace(line), "=")
		values[key] = value
	}
	return values
}

// mainPID returns the condition that a service runs. It prints the PID.
func mainPID(unit string) string {
	return "pid=$(systemctl show -P MainPID " + unit + ") && [ \"$pid\" != 0 ] && echo $pid"
}

// rested returns when the jobs of the units have ended. A restart of dcm-apply.service does not
// wait for the jobs after it.
func (m machine) rested(units ...string) {
	m.t.Helper()
	m.run("systemd-run --quiet --wait --property=After='" + strings.Join(units, " ") + "' true")
}

// units returns the state of each unit in one line, with its PID. Equal states mean that the
// unit was not restarted.
func (m machine) units(names ...string) map[string]string {
	m.t.Helper()
	states := make(map[string]string)
	for _, name := range names {
		p := m.show(name, "ActiveState", "SubState", "Result", "MainPID", "NRestarts")
		states[name] = fmt.Sprintf("%s (%s) %s, pid %s, %s restarts", p["ActiveState"], p["SubState"], p["Result"], p["MainPID"], p["NRestarts"])
	}
	return states
}
