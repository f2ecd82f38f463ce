package cli

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/spf13/cobra"

	"dcm/internal/app/cli/console"
	"dcm/internal/engine/host"
	"dcm/internal/exitcode"
)

// TestOutput_Everywhere: each command with --json has -o json.
func TestOutput_Everywhere(t *testing.T) {
	var n int
	var walk func(c *cobra.Command)
	walk = func(c *cobra.Command) {
		if c.Flags().Lookup("json") != nil {
			n++
			if f := c.Flags().Lookup("output"); f == nil || f.Shorthand != "o" {
				t.Errorf("%s has --json and not -o", c.CommandPath())
			}
		}
		for _, below := range c.Commands() {
			walk(below)
		}
	}
	if walk(root(&host.Host{}, &console.Console{}, nil)); n < 15 {
		t.Errorf("only %d commands have --json", n)
	}
}

// TestOutput_Envelope: -o json prints what --json prints as the result of an envelope.
func TestOutput_Envelope(t *testing.T) {
	for _, line := range []string{
		"plan cpx-nps4 --node mi300x-8", "topology --node mi300x-8 --profile cpx-nps4", "run --dry-run -n 2 --node mi300x-8 --profile cpx-nps4", "version", "history", "status",
	} {
		t.Run(line, func(t *testing.T) {
			root := t.TempDir()
			if err := os.CopyFS(filepath.Join(root, "usr/lib/dcm/dcm.toml.d"), os.DirFS("../../../packaging/profiles")); err != nil {
				t.Fatal(err)
			}
			before, _, want := answered(t, root, line+" --json")
			status, errors, text := answered(t, root, line+" -o json")
			if status != before {
				t.Errorf("exit status %d with -o json, %d with --json: %s", status, before, errors)
			}
			var got console.Envelope
			if err := json.Unmarshal([]byte(text), &got); err != nil {
				t.Fatalf("%v: %s", err, text)
			}
			var result any
			if err := json.Unmarshal([]byte(want), &result); err != nil {
				t.Fatalf("%v: %s", err, want)
			}
			if diff := cmp.Diff(console.Envelope{Version: console.EnvelopeVersion, Result: result}, got, cmp.FilterPath(isTaken, cmp.Ignore())); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

// isTaken matches the time of an account.
func isTaken(p cmp.Path) bool {
	key, ok := p.Index(-1).(cmp.MapIndex)
	return ok && key.Key().String() == "taken"
}

// TestOutput_UnknownFormat is a usage error. Options without a command are those of the status.
func TestOutput_UnknownFormat(t *testing.T) {
	for line, want := range map[string]string{
		"gpus -o yaml":  `unknown format (found "yaml", want json)`,
		"-o yaml":       `unknown format (found "yaml", want json)`,
		"gpus --output": "flag needs an argument",
	} {
		if status, errors, _ := answered(t, t.TempDir(), line); status != exitcode.Usage || !strings.Contains(errors, want) {
			t.Errorf("dcm %s: exit status %d, %q, want %q", line, status, errors, want)
		}
	}
	if _, errors, text := answered(t, t.TempDir(), "--json"); !strings.HasPrefix(text, "{") {
		t.Errorf("dcm --json: %q, %q", errors, text)
	}
}

// answered runs a command on a host tree, and returns its exit status, errors and output.
func answered(t *testing.T, root, line string) (status int, errors, text string) {
	t.Helper()
	var out, err bytes.Buffer
	status = Run(t.Context(), &host.Host{Root: root}, &console.Console{Out: &out, Err: &err}, strings.Fields(line))
	return status, err.String(), out.String()
}
