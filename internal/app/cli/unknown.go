package cli

import (
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"dcm/internal/exitcode"
)

// unknown returns the error of a command that does not exist.
func unknown(c *cobra.Command, name string) error {
	hint := fmt.Sprintf("see '%s --help'", c.CommandPath())
	if means := synonym(name); means != nil && !c.HasParent() {
		hint = fmt.Sprintf("did you mean %s?", quoted(means))
	} else if like := c.SuggestionsFor(name); len(like) > 0 {
		hint = fmt.Sprintf("did you mean %q?", like[0])
	}
	return exitcode.With(exitcode.Usage, fmt.Errorf("unknown command %q\nhint: %s", name, hint))
}

// quoted returns "a", "b" or "c".
func quoted(names []string) string {
	var all []string
	for _, name := range names {
		all = append(all, fmt.Sprintf("%q", name))
	}
	last := len(all) - 1
	if last == 0 {
		return all[0]
	}
	return strings.Join(all[:last], ", ") + " or " + all[last]
}

// synonym returns the commands that a name of another program's command probably means; nil for another name.
func synonym(name string) []string {
	for _, s := range []struct{ names, means []string }{
		{[]string{"ls", "list", "show", "info", "get"}, []string{"dcm status", "dcm gpus", "dcm profiles"}},
		{[]string{"log", "logs", "events"}, []string{"dcm history"}},
		{[]string{"rollback", "revert", "reset"}, []string{"dcm undo", "dcm history"}},
		{[]string{"doctor", "diagnose", "validate", "test"}, []string{"dcm check"}},
		{[]string{"config"}, []string{"dcm check --effective"}},
		{[]string{"set", "select", "switch", "enable"}, []string{"dcm use PROFILE"}},
		{[]string{"ps", "processes"}, []string{"dcm holders"}},
		{[]string{"mig", "modes"}, []string{"dcm gpus", "dcm profiles"}},
		{[]string{"alloc", "srun", "exec"}, []string{"dcm run"}},
		{[]string{"stop", "kill", "extend"}, []string{"dcm lease"}},
		{[]string{"start"}, []string{"dcm apply"}},
		{[]string{"bundle", "sos", "bugreport"}, []string{"dcm support bundle"}},
	} {
		if slices.Contains(s.names, name) {
			return s.means
		}
	}
	return nil
}
