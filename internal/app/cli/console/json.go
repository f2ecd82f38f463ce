package console

import (
	"encoding/json"
	"fmt"

	"github.com/spf13/cobra"
)

// EnvelopeVersion is the version of the JSON that -o json prints. An incompatible change of any result increases it.
const EnvelopeVersion = 1

// Envelope is the JSON that -o json prints, the same for each command.
type Envelope struct {
	Version int `json:"version"`
	Result  any `json:"result"` // what --json prints
}

// JsonFlag adds --json, which prints the result alone, and -o json, which prints it in an [Envelope].
func (c *Console) JsonFlag(cmd *cobra.Command) *bool {
	asJSON := cmd.Flags().Bool("json", false, "print JSON without the envelope of -o json")
	cmd.Flags().VarP(output{cmd, c}, "output", "o", "print JSON in an envelope; the only `FORMAT` is json")
	cobra.CheckErr(cmd.RegisterFlagCompletionFunc("output", cobra.FixedCompletions([]cobra.Completion{"json"}, cobra.ShellCompDirectiveNoFileComp)))
	return asJSON
}

// output is the value of -o, a [pflag.Value].
type output struct {
	cmd *cobra.Command
	con *Console
}

// Set sets --json too, without which other options cannot be combined.
func (o output) Set(format string) error {
	if format != "json" {
		return fmt.Errorf("unknown format (found %q, want json)", format)
	}
	o.con.enveloped = true
	return o.cmd.Flags().Set("json", "true")
}

func (o output) Type() string   { return "format" }
func (o output) String() string { return "" }

// Answer writes v to standard output as JSON.
func (c *Console) Answer(v any) error {
	e := json.NewEncoder(c.Out)
	e.SetIndent("", "  ")
	return e.Encode(c.inEnvelope(v))
}

// AnswerLine writes v to standard output as one line of JSON.
func (c *Console) AnswerLine(v any) error {
	return json.NewEncoder(c.Out).Encode(c.inEnvelope(v))
}

func (c *Console) inEnvelope(v any) any {
	if c.enveloped {
		return Envelope{EnvelopeVersion, v}
	}
	return v
}
