package cli

import (
	"os/exec"
	"regexp"
	"strings"
	"testing"

	"dcm/internal/app/cli/console"
	"dcm/internal/engine/host"
	"dcm/internal/testkit/pty"
	"dcm/internal/text"
)

// colours are the control sequences that a command without a live display may write.
var colours = regexp.MustCompile("\x1b\\[[0-9;]*m")

// onTerminal runs a command in a terminal of that width and returns what it shows.
func onTerminal(t *testing.T, r reader, width uint16, environment []string, line string) string {
	t.Helper()
	cmd := exec.Command("dcm", strings.Fields(line)...)
	cmd.Env = append(append(cmd.Environ(), "DCM_TEST_ROOT="+r.root, "TERM=xterm", "NO_COLOR="), environment...)
	out, _ := pty.Output(t, cmd, width, 50) // many of the commands end with another status than 0
	return out
}

// shownCommands are the commands that print tables and sentences.
var shownCommands = []string{
	"status", "gpus", "partitions", "plan", "plan spx-nps1", "plan tpx-nps1", "verify", "verify spx-nps1", "report", "report --list",
	"profiles", "check", "topology", "holders", "holders --units", "leases", "queue", "selftest", "partitions --json --metrics",
	"top --once", "version", "stauts", "run -n 99 --dry-run --node mi300x-8", "check --node h100-8",
}

// TestTerminal_Width: no command writes a line that is wider than the terminal.
func TestTerminal_Width(t *testing.T) {
	for _, kind := range []string{"mi300x-8", "mi300x-8-bmc"} {
		t.Run(kind, func(t *testing.T) {
			r := newReader(t, kind)
			r.applies(`profile = "cpx-nps4"`)
			for _, width := range []uint16{60, 80, 160} {
				for _, line := range shownCommands {
					checkWidth(t, line, width, strings.ReplaceAll(onTerminal(t, r, width, nil, line), r.root, ""))
				}
			}
		})
	}
}

func checkWidth(t *testing.T, command string, width uint16, shown string) {
	t.Helper()
	if shown == "" {
		t.Errorf("dcm %s shows nothing", command)
	}
	for line := range strings.Lines(colours.ReplaceAllString(shown, "")) {
		if n := text.Width(strings.TrimRight(line, "\n")); n > int(width) {
			t.Errorf("dcm %s on a terminal of %d columns: a line of %d:\n%s", command, width, n, line)
		}
	}
}

// TestTerminal_Help: the help of each command fits a terminal of 80 columns, and one of 60.
func TestTerminal_Help(t *testing.T) {
	r := newReader(t, "mi300x-8")
	for _, c := range root(&host.Host{}, &console.Console{}, nil).Commands() {
		for _, width := range []uint16{60, 160} {
			checkWidth(t, c.Name()+" --help", min(width, 79), onTerminal(t, r, width, nil, c.Name()+" --help"))
		}
	}
}

func TestTerminal_NoColour(t *testing.T) {
	r := newReader(t, "mi300x-8")
	r.applies(`profile = "cpx-nps4"`)
	for _, line := range []string{"status", "plan tpx-nps1", "topology"} {
		if out := onTerminal(t, r, 80, nil, line); !strings.Contains(out, "\x1b[") {
			t.Errorf("dcm %s has no colour: %q", line, out)
		}
		for _, setting := range []string{"NO_COLOR=1", "TERM=dumb"} {
			if out := onTerminal(t, r, 80, []string{setting}, line); strings.Contains(out, "\x1b") {
				t.Errorf("dcm %s with %s has colour: %q", line, setting, out)
			}
		}
	}
}
