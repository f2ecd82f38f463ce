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
)

// TestManual_HasEveryCommand compares the commands and their options with dcm(1), whose usage
// lines start with ".B dcm".
func TestManual_HasEveryCommand(t *testing.T) {
	page, err := os.ReadFile("../../../packaging/man/dcm.1")
	if err != nil {
		t.Fatal(err)
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
		if !manual[c.Use] {
			t.Errorf("the manual has no line %q", ".B dcm "+c.Use)
		}
		checkFlags(t, c, string(page))
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
		"lease", "run", "reserve", "mig", "mig-parted", "kubernetes", "metrics", "prometheus", "alert", "podman", "docker", "quadlet", "refused",
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
