package console

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"dcm/internal/exitcode"
)

// Args makes the errors of check usage errors. The texts are dcm's for a wrong number of arguments.
func Args(check cobra.PositionalArgs) cobra.PositionalArgs {
	return func(c *cobra.Command, given []string) error {
		if err := check(c, given); err != nil {
			if text := err.Error(); strings.Contains(text, "arg(s)") || strings.HasPrefix(text, "unknown command") {
				err = wrongNumber(c, check, given)
			}
			return exitcode.With(exitcode.Usage, fmt.Errorf("%w\nhint: see '%s --help'", err, c.CommandPath()))
		}
		return nil
	}
}

// wrongNumber describes the wrong number of arguments that check has refused.
func wrongNumber(c *cobra.Command, check cobra.PositionalArgs, given []string) error {
	_, want, _ := strings.Cut(c.UseLine(), " "+c.Name()+" ")
	switch {
	case len(given) == 0:
		return fmt.Errorf("an argument is missing (want %s)", c.UseLine())
	case want == "" || check(c, given[:1]) != nil:
		return fmt.Errorf("%s takes no argument (found %q)", c.CommandPath(), given[0])
	}
	return fmt.Errorf("too many arguments (found %q, want %s)", given, c.UseLine())
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

// Exclusive returns the error of a wrong command line if both options of a pair are given.
func Exclusive(c *cobra.Command, pairs ...[2]string) error {
	for _, p := range pairs {
		if c.Flags().Changed(p[0]) && c.Flags().Changed(p[1]) {
			return exitcode.With(exitcode.Usage, fmt.Errorf("--%s cannot be combined with --%s", p[0], p[1]))
		}
	}
	return nil
}
