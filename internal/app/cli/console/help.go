package console

import (
	"cmp"
	"fmt"
	"strings"
	"text/template"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"dcm/internal/text"
)

// helpWidth is the width of help on a terminal that is wider, and elsewhere.
const helpWidth = 79

// WrapHelp makes the help of a command and of all below it fit the terminal.
func (c *Console) WrapHelp(root *cobra.Command) {
	width := func() int {
		if n := c.Width(); n > 0 {
			return min(n, helpWidth)
		}
		return helpWidth
	}
	root.SetHelpFunc(func(cmd *cobra.Command, _ []string) {
		fmt.Fprintf(cmd.OutOrStdout(), "%s\n\n%s", paragraphs(cmp.Or(cmd.Long, cmd.Short), width()), cmd.UsageString())
	})
	root.SetUsageTemplate(strings.NewReplacer(
		"  {{.UseLine}}", "{{wrap (print `  ` .UseLine) 6}}",
		"  {{rpad .Name .NamePadding }} {{.Short}}", "{{entry .Name .NamePadding .Short}}",
		"{{.Example}}", "{{examples .Example}}",
		"{{.LocalFlags.FlagUsages | trimTrailingWhitespaces}}", "{{options .LocalFlags}}",
		"{{.InheritedFlags.FlagUsages | trimTrailingWhitespaces}}", "{{options .InheritedFlags}}",
		"\nUse \"{{.CommandPath}} [command] --help\" for more information about a command.", "\n{{wrap (print `Use \"` .CommandPath ` [command] --help\" for more information about a command.`) 0}}",
	).Replace(root.UsageTemplate()))
	root.SetUsageFunc(func(cmd *cobra.Command) error {
		usage, err := template.New("usage").Funcs(template.FuncMap{
			"wrap": func(line string, hang int) string { return text.Wrap(line, width(), hang) },
			"entry": func(name string, padding int, short string) string {
				return text.Wrap("  "+text.Pad(name, padding)+" "+short, width(), padding+3)
			},
			"examples": func(s string) string { return examples(s, width()) },
			"options":  func(f *pflag.FlagSet) string { return strings.TrimRight(f.FlagUsagesWrapped(width()), " \n") },
			"rpad":     text.Pad, "trimTrailingWhitespaces": func(s string) string { return strings.TrimRight(s, " \n") },
		}).Parse(cmd.UsageTemplate())
		if err != nil {
			return err
		}
		return usage.Execute(cmd.OutOrStderr(), cmd)
	})
}

// paragraphs fills the lines of each paragraph. One with indented lines stays as it is.
func paragraphs(s string, width int) string {
	var out []string
	for paragraph := range strings.SplitSeq(strings.TrimSpace(s), "\n\n") {
		if !strings.ContainsAny(paragraph, "\t") && !strings.Contains("\n"+paragraph, "\n ") {
			paragraph = text.Wrap(strings.Join(strings.Fields(paragraph), " "), width, 0)
		}
		out = append(out, paragraph)
	}
	return strings.Join(out, "\n\n")
}

// examples continues the lines of commands that do not fit after a backslash.
func examples(s string, width int) string {
	lines := strings.Split(s, "\n")
	for i, line := range lines {
		if text.Width(line) > width {
			lines[i] = strings.ReplaceAll(text.Wrap(line, width-len(` \`), 6), "\n", " \\\n")
		}
	}
	return strings.Join(lines, "\n")
}
