package console

import (
	"errors"
	"time"

	"github.com/spf13/pflag"
)

// WaitFlag adds --wait and --wait=TIME. limit is 0 without a TIME.
func WaitFlag(f *pflag.FlagSet, wait *bool, limit *time.Duration, usage string) {
	f.Var(&waitValue{wait, limit}, "wait", usage)
	f.Lookup("wait").NoOptDefVal = "true"
}

// waitValue is the value of --wait: a boolean or a time.
type waitValue struct {
	wait  *bool
	limit *time.Duration
}

func (v *waitValue) Set(text string) error {
	*v.wait, *v.limit = text != "false", 0
	if text == "true" || text == "false" {
		return nil
	}
	limit, err := ParseDuration(text)
	if err == nil && limit <= 0 {
		err = errors.New("too short; want a time such as 90s, 30m or 2h")
	}
	*v.limit = limit
	return err
}

func (v *waitValue) String() string { return "" }

// Type lets the help show --wait without a value.
func (v *waitValue) Type() string { return "bool" }
