package cli

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"dcm/internal/app/cli/console"
	"dcm/internal/engine/host"
	"dcm/internal/exitcode"
)

// TestManual_HasEveryCommand compares the commands and their options with dcm(1), dcm-run(1) and dcm-use(1), whose usage
// lines start with ".B dcm".
func TestManual_HasEveryCommand(t *testing.T) {
	var page []byte
	for _, name := range []string{"dcm.1", "dcm-run.1", "dcm-use.1"} {
		text, err := os.ReadFile("../../../packaging/man/" + name)
		if err != nil {
			t.Fatal(err)
		}
		page = append(page, text...)
	}
	manual := make(map[string]bool)
	for _, m := range regexp.MustCompile(`(?m)^\.B dcm (\S.*)$`).FindAllStringSubmatch(string(page), -1) {
		manual[strings.ReplaceAll(m[1], `\-`, "-")] = true
	}
	names := make(map[string]bool)
	for _, c := range root(&host.Host{}, &console.Console{}, nil).Commands() {
		names[c.Name()] = true
		if c.Name() == "help" || c.Name() == "completion" {
			continue
		}
		if renamed, old := oldNames()[c.Name()]; old {
			if row := "dcm " + c.Name() + ";dcm " + renamed + "\n"; !c.Hidden || !strings.Contains(strings.ReplaceAll(string(page), `\-`, "-"), row) {
				t.Errorf("the table of old names in the manual has no row %q, or help has it", row)
			}
			continue
		}
		for _, below := range append([]*cobra.Command{c}, c.Commands()...) {
			line := strings.TrimPrefix(below.CommandPath()+strings.TrimPrefix(below.Use, below.Name()), "dcm ")
			if below.HasSubCommands() {
				continue
			}
			if !manual[line] {
				t.Errorf("the manual has no line %q", ".B dcm "+line)
			}
			checkFlags(t, below, string(page))
		}
	}
	for line := range manual {
		if name, _, _ := strings.Cut(line, " "); !names[name] {
			t.Errorf("the manual has dcm %s, which is no command", name)
		}
	}
}

// TestManual_FoundByWords: man -k finds a page by the words that people type.
func TestManual_FoundByWords(t *testing.T) {
	pages, err := filepath.Glob("../../../packaging/man/*.[0-9]")
	if err != nil {
		t.Fatal(err)
	}
	var lines []string
	for _, page := range pages {
		text, err := os.ReadFile(page)
		if err != nil {
			t.Fatal(err)
		}
		_, rest, _ := strings.Cut(string(text), ".SH NAME\n")
		line, _, _ := strings.Cut(rest, "\n")
		lines = append(lines, strings.ToLower(strings.ReplaceAll(line, `\-`, "-")))
	}
	for _, word := range []string{
		"lease", "run", "reserve", "mig", "mig-parted", "kubernetes", "metrics", "prometheus", "alert", "grafana", "select", "time limit", "exclusive", "podman", "docker", "quadlet", "refused",
		"exit", "uninstall", "upgrade", "undo", "permission", "slurm", "reboot", "promise", "tutorial", "queue", "amd", "nvidia", "vulnerability",
	} {
		if !slices.ContainsFunc(lines, func(line string) bool { return strings.Contains(line, word) }) {
			t.Errorf("man -k %s: no page has the word in its section NAME", word)
		}
	}
}

func checkFlags(t *testing.T, c *cobra.Command, page string) {
	c.Flags().VisitAll(func(f *pflag.Flag) {
		if !f.Hidden && !strings.Contains(page, `\-\-`+f.Name) {
			t.Errorf("the manual does not have --%s of dcm %s", f.Name, c.Name())
		}
	})
}

// TestHelp_OneScreen: the first help fits a terminal of 80 columns and 50 lines, and has no internal command.
func TestHelp_OneScreen(t *testing.T) {
	var out strings.Builder
	if status := Run(t.Context(), &host.Host{Root: "/"}, console.Fixed(&out, 80), []string{"--help"}); status != 0 {
		t.Fatalf("exit status %d", status)
	}
	if n := strings.Count(out.String(), "\n"); n > 50 {
		t.Errorf("%d lines, want at most 50:\n%s", n, out.String())
	}
	for _, name := range []string{"oneshot", "daemon", "agent", "leases", "slurm-conf", "selftest "} {
		if strings.Contains(out.String(), "\n  "+name) {
			t.Errorf("help has %s", name)
		}
	}
}

// TestUnknown_Synonym: the names of other programs' commands get the right suggestion, and no suggestion is hidden.
func TestUnknown_Synonym(t *testing.T) {
	for line, want := range map[string]string{
		"ls":         `did you mean "dcm status", "dcm gpus" or "dcm profiles"?`,
		"revert":     `did you mean "dcm undo" or "dcm history"?`,
		"log":        `did you mean "dcm history"?`,
		"doctor":     `did you mean "dcm check"?`,
		"set":        `did you mean "dcm use PROFILE"?`,
		"get":        `did you mean "dcm status", "dcm gpus" or "dcm profiles"?`,
		"stop":       `did you mean "dcm lease"?`,
		"statsu":     `did you mean "status"?`,
		"demon":      `see 'dcm --help'`,
		"lease lst":  `did you mean "list"?`,
		"lease undo": `see 'dcm lease --help'`,
	} {
		var out strings.Builder
		status := Run(t.Context(), &host.Host{Root: "/"}, console.Fixed(&out, 200), strings.Fields(line))
		if status != exitcode.Usage || !strings.Contains(out.String(), "hint: "+want) {
			t.Errorf("dcm %s: exit status %d, %s, want %s", line, status, out.String(), want)
		}
	}
}

// TestInternal_OutsideOfUnit: the commands of the units refuse to run elsewhere.
func TestInternal_OutsideOfUnit(t *testing.T) {
	for _, name := range []string{"daemon", "oneshot", "reserve", "agent"} {
		var out strings.Builder
		if status := Run(t.Context(), &host.Host{Root: "/"}, console.Fixed(&out, 200), []string{name}); status != exitcode.Usage || !strings.Contains(out.String(), "runs only in dcm") {
			t.Errorf("dcm %s: exit status %d, %s", name, status, out.String())
		}
	}
}
