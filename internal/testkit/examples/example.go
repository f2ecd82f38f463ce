package examples

import (
	"cmp"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// Example is one example of a document.
type Example struct {
	File    string // relative to the repository
	Line    int    // of its first line, from 1
	Section string // heading above it, with the one of the section if it is a subsection
	Text    string // as the reader sees it, without common indentation
	Inline  bool   // within a sentence
	Kind    Kind
	Mark    Mark
}

func (e Example) String() string { return fmt.Sprintf("%s:%d", e.File, e.Line) }

// Kind says what an example is, by its text.
type Kind string

// Kinds of examples.
const (
	Session    Kind = "session"               // commands after "$ ", and their output
	Script     Kind = "commands"              // commands only
	Config     Kind = "configuration"         // dcm.toml
	Setting    Kind = "setting"               // a line of dcm.toml in a sentence
	UnitFile   Kind = "unit file"             // of systemd, or a Quadlet
	Rules      Kind = "alert rules"           // of Prometheus
	Manifest   Kind = "manifest"              // of Kubernetes
	JavaScript Kind = "rules of polkit"       // a function of JavaScript
	Tests      Kind = "names of tests"        // of this repository
	Output     Kind = "output"                // nothing to run, by its mark
	Unknown    Kind = "of no recognised kind" // an error
)

// Mark says how an example differs from one that succeeds as printed on the page's node.
type Mark struct {
	// Nodes are the kinds of nodes that the example is about: "node mi300x-8 h100-8".
	Nodes []string
	// Base is the configuration that the example is added to: "base dynamic".
	Base string
	// Given is a command that establishes what the text presupposes: "given useradd ada".
	Given []string
	// Exits are the expected failures: "exits 2: dcm plan".
	Exits []Exit
	// Endless are the beginnings of commands that only an interrupt ends: "endless: dcm top".
	Endless []string
	// Output marks text that is shown and not entered: "output".
	Output bool
	// NotRun is the reason why no test can run the example: "not run: needs a real GPU".
	NotRun string
	// RunBy is the test that runs the example as printed, other than the test of examples, and a remark: "run by
	// TestSlurm: make test-slurm".
	RunBy string
}

// Exit is the expected exit status of the commands that begin with a text.
type Exit struct {
	Status  int
	Command string // all commands if it is empty
}

// Status returns the expected exit status of a command of the example.
func (m Mark) Status(command string) int {
	for _, e := range m.Exits {
		if strings.HasPrefix(strings.TrimPrefix(command, "sudo "), e.Command) {
			return e.Status
		}
	}
	return 0
}

// add adds the text of one mark. next is the line of the block that the mark is about, empty for the block.
func (m *Mark) add(text, next string) error {
	word, rest, _ := strings.Cut(text, " ")
	switch {
	case text == "output":
		m.Output = true
	case word == "node" && rest != "":
		m.Nodes = strings.Fields(rest)
	case word == "base" && rest != "":
		m.Base = rest
	case word == "given" && rest != "":
		m.Given = append(m.Given, rest)
	case word == "exits":
		status, command, _ := strings.Cut(rest, ": ")
		n, err := strconv.Atoi(status)
		if err != nil || n <= 0 {
			return fmt.Errorf("exit status: found %q, want a number above 0", status)
		}
		m.Exits = append(m.Exits, Exit{n, cmp.Or(command, next)})
	case strings.HasPrefix(text, "endless: "):
		m.Endless = append(m.Endless, strings.TrimPrefix(text, "endless: "))
	case strings.HasPrefix(text, "not run: "):
		m.NotRun = strings.TrimPrefix(text, "not run: ")
	case strings.HasPrefix(text, "run by "):
		m.RunBy = strings.TrimPrefix(text, "run by ")
	default:
		return fmt.Errorf("mark: found %q, want output, node KIND..., base NAME, given COMMAND, exits STATUS[: COMMAND], endless: COMMAND, not run: REASON or run by TEST", text)
	}
	return nil
}

// programs begin a block of commands, or a command in a sentence.
var programs = []string{
	"apt", "ansible-galaxy", "ansible-playbook", "busctl", "cosign", "dcm", "dcm-sim", "digest=$(", "dracut", "git clone", "go test", "gpg", "groupadd", "helm", "i=$(",
	"journalctl", "kubectl", "make", "man", "modprobe", "nvidia-modprobe", "nvidia-smi", "oras", "podman", "rpm", "scontrol", "semodule", "sha256sum", "skopeo", "srun", "ssh",
	"sudo", "systemctl", "systemd-analyze", "systemd-run", "update-initramfs", "varlinkctl", "cat", "echo", "for", "(cd", "cd",
}

func isCommand(line string) bool {
	return slices.ContainsFunc(programs, func(p string) bool {
		rest, ok := strings.CutPrefix(line, p)
		return ok && (rest == "" || rest[0] == ' ' || strings.HasSuffix(p, "("))
	})
}

var (
	unitSection = regexp.MustCompile(`(?m)^\[(Unit|Service|Socket|Install|Container)\]$`)
	setting     = regexp.MustCompile(`^[a-z-]+ = (true|false|\d+|"[^"]*"|\[.*\]|\{.*\})$`)
	tomlLine    = regexp.MustCompile(`^(\[{1,2}[a-z][\w.-]*\]{1,2}|[a-z-]+ *= .+)$`)
)

// kind returns the kind of a block.
func kind(text string, m Mark) Kind {
	first, _, _ := strings.Cut(text, "\n")
	switch {
	case m.Output:
		return Output
	case strings.HasPrefix(first, "$ "):
		return Session
	case isCommand(first):
		return Script
	case unitSection.MatchString(text):
		return UnitFile
	case tomlLine.MatchString(first):
		return Config
	case strings.HasPrefix(first, "groups:"):
		return Rules
	case strings.HasPrefix(first, "apiVersion:"):
		return Manifest
	case strings.HasPrefix(first, "// ") && strings.Contains(text, "polkit."):
		return JavaScript
	case strings.HasPrefix(first, "Test"):
		return Tests
	case m.NotRun != "", m.RunBy != "":
		return Output
	}
	return Unknown
}

// dedent removes the indentation that all lines have.
func dedent(lines []string) string {
	common := -1
	for _, l := range lines {
		if at := len(l) - len(strings.TrimLeft(l, " ")); strings.TrimSpace(l) != "" && (common < 0 || at < common) {
			common = at
		}
	}
	var out strings.Builder
	for _, l := range lines {
		out.WriteString(l[min(max(common, 0), len(l)):] + "\n")
	}
	return strings.Trim(out.String(), "\n")
}
