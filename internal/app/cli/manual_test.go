package cli

import (
	"os"
	"regexp"
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

func checkFlags(t *testing.T, c *cobra.Command, page string) {
	c.Flags().VisitAll(func(f *pflag.Flag) {
		if !f.Hidden && !strings.Contains(page, `\-\-`+f.Name) {
			t.Errorf("the manual does not have --%s of dcm %s", f.Name, c.Name())
		}
	})
}
