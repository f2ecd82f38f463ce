package console

import (
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/spf13/cobra"

	"dcm/internal/engine/host"
	"dcm/internal/exitcode"
)

// Args makes the errors of check usage errors.
func Args(check cobra.PositionalArgs) cobra.PositionalArgs {
	return func(c *cobra.Command, given []string) error {
		if err := check(c, given); err != nil {
			return exitcode.With(exitcode.Usage, fmt.Errorf("%w\nhint: see '%s --help'", err, c.CommandPath()))
		}
		return nil
	}
}

// JsonFlag adds --json.
func JsonFlag(c *cobra.Command) *bool {
	return c.Flags().Bool("json", false, "print JSON")
}

// DurationFlag adds an option whose value is a duration. shorthand may be "".
func DurationFlag(c *cobra.Command, to *time.Duration, name, shorthand, usage string) {
	c.Flags().VarP((*durationValue)(to), name, shorthand, usage)
}

// durationValue is a [pflag.Value] whose errors name the accepted values.
type durationValue time.Duration

func (d *durationValue) Set(text string) error {
	v, err := ParseDuration(text)
	if err == nil {
		*d = durationValue(v)
	}
	return err
}

// ParseDuration is [time.ParseDuration] with errors that name the accepted values.
func ParseDuration(text string) (time.Duration, error) {
	v, err := time.ParseDuration(text)
	switch {
	case err == nil:
		return v, nil
	case wholeNumber(text):
		return 0, fmt.Errorf("no unit; did you mean %ss?", text)
	}
	return 0, errors.New("want a time such as 90s, 30m or 2h")
}

func wholeNumber(text string) bool {
	_, err := strconv.Atoi(text)
	return err == nil
}

func (d *durationValue) Type() string { return "duration" }

// String is empty for zero, so that help shows no default.
func (d *durationValue) String() string {
	if *d == 0 {
		return ""
	}
	return time.Duration(*d).String()
}

// ProfileNames completes an argument that is the name of a profile.
func ProfileNames(h *host.Host) cobra.CompletionFunc {
	return func(_ *cobra.Command, given []string, _ string) ([]cobra.Completion, cobra.ShellCompDirective) {
		if len(given) > 0 {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		return Profiles(h), cobra.ShellCompDirectiveNoFileComp
	}
}

// Profiles returns the names of the profiles for a completion, each with its modes. It is
// empty if the configuration has an error.
func Profiles(h *host.Host) []cobra.Completion {
	cfg, err := h.Config()
	if err != nil {
		return nil
	}
	var out []cobra.Completion
	for _, name := range cfg.Names() {
		modes := cfg.Profiles[name].String()
		if memory := cfg.Profiles[name].Memory; memory != "" {
			modes += ", " + string(memory)
		}
		out = append(out, cobra.CompletionWithDesc(name, modes))
	}
	return out
}
