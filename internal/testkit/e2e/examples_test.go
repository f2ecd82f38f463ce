package e2e_test

import (
	"cmp"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/BurntSushi/toml"

	"dcm/internal/gpu/nvml/standin"
	"dcm/internal/testkit/e2e"
	"dcm/internal/testkit/examples"
)

// exampleNodes are the kinds of nodes that the documents are about.
var exampleNodes = []string{"mi300x-8", "h100-8", "mi300x-4+h100-4"}

// printedExamples runs the examples of the documents as printed, each on the nodes that its text is about.
func printedExamples(t *testing.T, p product) {
	t.Parallel()
	lib, err := standin.Build(t.Context(), t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	all := exampleDocuments(t)
	for _, kind := range exampleNodes {
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			seed := exampleSeed(t, all)
			var m machine
			if strings.Contains(kind, "h100") {
				maps.Copy(seed, driverlessNVIDIA())
				seed["/usr/local/bin/gpu-client"] = e2e.File{Content: []byte("#!/bin/sh\nexec sleep infinity\n"), Mode: 0o755}
				seed[nodeless] = e2e.File{}
				m = nvidiaNode(t, e2e.Entered(), p, kind, lib, seed)
				m.knob("nodes /dev 509")
			} else {
				maps.Copy(seed, early("e2e-bpf", "", "e2e-node.service", "#!/bin/sh\nmkdir -p /sys/fs/bpf; mountpoint -q /sys/fs/bpf || mount -t bpf bpf /sys/fs/bpf\n"))
				m = installWith(t, e2e.Entered(), p, seed)
			}
			n := make(map[string]int)
			for _, e := range append(all, m.helpTexts()...) {
				if slices.Contains(e.Nodes(), kind) && entered(e) {
					t.Run(e.String(), func(t *testing.T) { m.in(t).example(e, kind, n) })
				}
			}
			t.Run("sentences", func(t *testing.T) { m.in(t).sentences(all, kind, n) })
			for _, what := range slices.Sorted(maps.Keys(n)) {
				t.Logf("%4d %s", n[what], what)
			}
		})
	}
}

// entered reports whether the test runs the example. A single setting of the template has its default, so that to apply it
// changes nothing; the test of the command line loads it.
func entered(e examples.Example) bool {
	switch {
	case e.Inline, e.Mark.RunBy != "", e.Mark.NotRun != "":
		return false
	case e.Kind == examples.Session, e.Kind == examples.Script:
		return len(typed(e)) > 0
	case e.Kind == examples.Config:
		return e.File != "packaging/dcm.toml" || e.Line == 1 || strings.HasPrefix(e.Section, "[")
	}
	return false
}

// typed returns the commands of an example that need no source tree.
func typed(e examples.Example) []examples.Command {
	commands, err := e.Commands()
	if err != nil {
		return nil // the test of package examples reports it
	}
	return slices.DeleteFunc(commands, func(c examples.Command) bool { return ofSource.MatchString(c.Text) })
}

// ofSource matches a command that needs the source tree. A test of package examples checks that the targets and tests
// exist.
var ofSource = regexp.MustCompile(`^(sudo )?([A-Z_0-9]+=\S+ )?(make|go test|Test\w+/)`)

// exampleDocuments returns the examples of all documents without the help texts.
func exampleDocuments(t *testing.T) []examples.Example {
	t.Helper()
	all, err := examples.Documents("../../..")
	if err != nil {
		t.Fatal(err)
	}
	return all
}

// helpTexts returns the examples of the help texts.
func (m machine) helpTexts() []examples.Example {
	m.t.Helper()
	var out []examples.Example
	for _, c := range regexp.MustCompile(`(?m)^  ([a-z-]+) +[A-Z]`).FindAllStringSubmatch(m.run("dcm --help"), -1) {
		_, text, _ := strings.Cut(m.run("dcm "+c[1]+" --help"), "\nExamples:\n")
		text, _, _ = strings.Cut(text, "\n\n")
		found, err := examples.Help("dcm "+c[1], text)
		if err != nil {
			m.t.Fatal(err)
		}
		out = append(out, found...)
	}
	if len(out) == 0 {
		m.t.Error("no example found in the help texts")
	}
	return out
}

// here is the directory in which the commands run.
const here = "/root/examples"

// exampleSeed has the programs, files and units that the examples name.
func exampleSeed(t *testing.T, all []examples.Example) e2e.Seed {
	t.Helper()
	program := e2e.File{Mode: 0o755, Content: []byte("#!/bin/sh\necho \"$0 has ${DCM_PARTITIONS:-no partitions}\"\n")}
	seed := e2e.Seed{
		"/usr/local/bin/python3": program, "/usr/local/bin/jupyter": program, here + "/bench": program,
		"/etc/hosts":                            {Content: []byte("127.0.0.1 localhost gpu-node\n")},
		here + "/dcm.toml":                      {Content: []byte("profile = \"cpx-nps4\"\n")},
		here + "/config.json":                   {Content: []byte(e2e.Kubernetes())},
		"/etc/nvidia-mig-manager/config.yaml":   {Content: []byte("version: v1\nmig-configs:\n  all-balanced:\n    - devices: all\n      mig-enabled: true\n      mig-devices:\n        \"1g.10gb\": 2\n        \"2g.20gb\": 1\n        \"3g.40gb\": 1\n")},
		"/etc/nvidia-mig-manager/hooks.yaml":    {Content: []byte("version: v1\nhooks:\n  pre-apply-mode:\n    - command: systemctl\n      args: [\"stop\", \"gpuagent\"]\n")},
		"/etc/nvidia-mig-manager/hooks.sh":      {Content: []byte("#!/bin/bash\ndriver_services=(\n\tnvidia-dcgm.service\n)\n")},
		migManager + ".service.d/override.conf": {Content: []byte("[Service]\nEnvironment=\"MIG_PARTED_SELECTED_CONFIG=all-balanced\"\n")},
	}
	for _, e := range all {
		if e.Kind != examples.Config {
			continue
		}
		for _, unit := range exampleConfig(t, e).units() {
			name, _, _ := strings.Cut(unit, "@")
			if strings.Contains(unit, "@") {
				name += "@"
			}
			if name != "amd-metrics-exporter" && name != "gpuagent" { // the node has these
				seed["/etc/systemd/system/"+name+".service"] = e2e.File{Content: []byte("[Service]\nExecStart=sleep infinity\n")}
			}
		}
	}
	return seed
}

// migManager is the unit of NVIDIA's service.
const migManager = "/etc/systemd/system/nvidia-mig-manager"

// exampleOf is what the test reads of an example of a configuration.
type exampleOf struct {
	Profiles map[string]any
	Clients  struct{ Units []string }
	Guard    struct{ Observers []string }
	Client   []struct{ Unit string }

	Reservation []struct{ Name, Unit string }
}

func exampleConfig(t *testing.T, e examples.Example) (c exampleOf) {
	t.Helper()
	if _, err := toml.Decode(e.Text, &c); err != nil {
		t.Fatalf("%s: %v", e, err)
	}
	return c
}

func (c exampleOf) units() []string {
	units := slices.Concat(c.Clients.Units, c.Guard.Observers)
	for _, client := range c.Client {
		units = append(units, client.Unit)
	}
	for _, r := range c.Reservation {
		units = append(units, r.Unit)
	}
	return slices.DeleteFunc(units, func(u string) bool { return u == "" })
}

// rest returns the node to the state before an example: no lease, no file of an earlier example, and the profile base on the GPUs.
func (m machine) rest(base string, units ...string) {
	m.t.Helper()
	m.run(`dcm-sim reset
		systemctl stop 'dcm-*.scope' 'dcm-keep@*.target' "$@" || :
		rm -rf /run/dcm/dcm.toml.d/* /etc/dcm/dcm.toml.d/* `+here+`/*.tar.gz
		systemctl unmask dcm dcm-apply; systemctl reset-failed`, units...)
	m.until(noLeases)
	m.put("/usr/lib/dcm/dcm.toml.d/zz-base.toml", base+"\n[clients]\nunits = [\"amd-metrics-exporter\", \"gpuagent\"]\n")
	m.put(settings, "")
	m.run("systemctl restart dcm && systemctl start amd-metrics-exporter gpuagent && dcm verify base")
}

// example runs an example as printed.
func (m machine) example(e examples.Example, kind string, n map[string]int) {
	plain := e
	plain.Kind = "" // a configuration may select a profile
	m.rest(plain.Base(kind), exampleUnits(m.t, e)...)
	for _, command := range e.Mark.Given {
		m.t.Logf("given: %s\n%s", command, m.run(command))
	}
	if e.Kind == examples.Config {
		n["configurations applied"]++
		m.configuration(e)
		return
	}
	m.enter(e, typed(e), n)
}

func exampleUnits(t *testing.T, e examples.Example) []string {
	t.Helper()
	if e.Kind != examples.Config {
		return nil
	}
	var out []string
	for _, r := range exampleConfig(t, e).Reservation {
		if r.Unit != "" {
			out = append(out, instance(r.Unit))
		}
	}
	return out
}

// instance returns a unit that can be started: the first instance of a template.
func instance(unit string) string {
	if strings.HasSuffix(unit, "@") {
		return unit + "1"
	}
	return unit
}

// configuration installs a configuration, applies it with each of its profiles, and starts the services that have reservations.
func (m machine) configuration(e examples.Example) {
	c := exampleConfig(m.t, e)
	for _, client := range []string{"amd-metrics-exporter", "gpuagent"} {
		if len(c.Clients.Units) > 0 && !slices.Contains(c.Clients.Units, client) {
			m.run("systemctl stop " + client) // this node does not have it
		}
	}
	m.put(settings, e.Text)
	m.run("dcm check && systemctl restart dcm && dcm verify")
	for _, r := range c.Reservation {
		if r.Unit == "" {
			continue
		}
		m.run("systemctl start " + instance(r.Unit) + " && systemctl is-active " + instance(r.Unit))
		place := cmp.Or(r.Name, strings.ReplaceAll(r.Unit, "@", "-"))
		place = strings.TrimSuffix(place, "-")
		if got := m.run("ls -d /dev/dcm/" + place + "*/render0"); got == "" {
			m.t.Errorf("partitions of %s: want links in /dev/dcm/%s, got none", r.Unit, place)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(c.Profiles)) {
		m.run("dcm apply " + name + " && dcm verify " + name)
	}
	if r := m.try("dcm status"); r.Code != 0 {
		m.t.Errorf("dcm status: exit status %d\n%s%s", r.Code, r.Stdout, r.Stderr)
	}
}

// enter runs commands in one shell, and checks the exit status of each.
func (m machine) enter(e examples.Example, commands []examples.Command, n map[string]int) {
	m.t.Helper()
	script := "set -o pipefail\ncd " + here + "\n: >/run/statuses\n"
	for i, c := range commands {
		text := c.Text
		if endless(e, c) {
			// A terminal shows what the command prints, and an interrupt ends it.
			m.put(fmt.Sprintf("/run/endless%d.sh", i), "echo $$ >/run/endless.pid\nexec "+c.Text+"\n")
			text = fmt.Sprintf(`: >/run/endless; (sleep infinity | exec script --quiet --return --command 'exec bash /run/endless%d.sh' /dev/null) >/run/endless 2>&1 &
e2e-agent await-command '[ -s /run/endless ]' && kill -INT $(cat /run/endless.pid)`, i)
		}
		script += fmt.Sprintf("echo '--- %d'\n%s\necho $? >>/run/statuses\n", i, text)
	}
	m.put("/run/example.sh", script)
	r := m.try("bash /run/example.sh 2>&1 </dev/null")
	statuses := strings.Fields(m.run("cat /run/statuses"))
	m.t.Logf("%s%s", r.Stdout, r.Stderr)
	if len(statuses) != len(commands) {
		m.t.Fatalf("commands that ended: got %d, want %d", len(statuses), len(commands))
	}
	for i, c := range commands {
		n["commands run"]++
		if want := strconv.Itoa(e.Mark.Status(c.Text)); statuses[i] != want {
			m.t.Errorf("%s:%d: %s: exit status %s, want %s", e.File, c.Line, c.Text, statuses[i], want)
		}
	}
}

func endless(e examples.Example, c examples.Command) bool {
	return slices.ContainsFunc(e.Mark.Endless, func(p string) bool {
		start, more := strings.CutSuffix(p, " ...")
		return c.Text == p || more && strings.HasPrefix(c.Text, start)
	})
}

// notInSentences are the commands in sentences that the test does not run, with the reason. At the end, * stands for any text.
var notInSentences = map[string]string{
	"dcm agent": "a unit runs it", "dcm daemon": "a unit runs it", "dcm oneshot": "a unit runs it", "dcm reserve": "a unit runs it",
	"dcm slurm tell": "needs Slurm", "dcm slurm feature": "needs Slurm", "dcm top": "an interrupt ends it; run as an example of dcm-partitions(7)",
	"dcm top --json": "an interrupt ends it", "dcm import *": "reads a file and writes another; run as an example of dcm(1)",
	"sudo dcm use mixed": "needs the configuration below it", "dcm use all-*": "run on the node of eight H100",
	"systemctl mask *": "a mistake that dcm.service(8) warns about, or for a unit that is not installed",
	"systemctl stop*":  "a mistake that dcm.service(8) warns about", "systemctl start*": "a mistake that dcm.service(8) warns about",
	"journalctl -k -g amdgpu": "a container has no log of the kernel", "systemctl cat": "lacks the name of a unit", "systemctl edit": "lacks the name of a unit", "systemctl restart": "lacks the name of a unit",
	"systemctl restart in a hook": "no command", "systemctl revert": "lacks the name of a unit", "systemctl set-property": "lacks the name of a unit",
}

// changes matches commands after which the node is not as before.
var changes = regexp.MustCompile(`\b(apply|use|run|guard|systemctl) `)

// runs reports whether the test runs the command of a sentence on the node.
func runs(command, kind string) bool {
	for pattern := range notInSentences {
		start, more := strings.CutSuffix(pattern, "*")
		if (command == pattern || more && strings.HasPrefix(command, start)) && (kind != "h100-8" || !strings.HasPrefix(command, "dcm use all-")) {
			return false
		}
	}
	return strings.HasPrefix(kind, "mi") || !strings.Contains(command, "cpx-") || strings.Contains(command, "--node")
}

// usageLine matches a command of which the reader replaces something.
var usageLine = regexp.MustCompile(`[\[|]|\b[A-Z]{2,}\b|\.\.\.$`)

// sentences runs the complete commands that sentences contain. A command that lacks arguments ends with 64: its name and options are checked
// by a test of the command line.
func (m machine) sentences(all []examples.Example, kind string, n map[string]int) {
	base := examples.Example{}.Base(kind)
	seen, changed := make(map[string]bool), true
	for _, e := range all {
		programs := []string{"dcm ", "sudo dcm ", "systemctl ", "sudo systemctl ", "journalctl ", "systemd-analyze "}
		if !e.Inline || seen[e.Text] || usageLine.MatchString(e.Text) || !slices.ContainsFunc(programs, func(p string) bool { return strings.HasPrefix(e.Text, p) }) {
			continue
		}
		seen[e.Text] = true
		if !runs(e.Text, kind) {
			continue
		}
		if changed {
			m.rest(base)
		}
		changed = changes.MatchString(e.Text)
		r := m.try("cd " + here + " && " + e.Text + " </dev/null")
		if r.Code == 64 {
			n["commands in sentences that lack arguments"]++
			continue
		}
		if strings.HasSuffix(e.Text, "guard off") {
			m.run("dcm guard on")
		}
		n["commands in sentences run"]++
		if r.Code != e.Mark.Status(e.Text) {
			m.t.Errorf("%s: %s: exit status %d, want %d\n%s%s", e, e.Text, r.Code, e.Mark.Status(e.Text), r.Stdout, r.Stderr)
		}
	}
}
