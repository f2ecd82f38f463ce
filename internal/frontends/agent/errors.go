package agent

import (
	"errors"

	"dcm/internal/frontends/varlink"
)

// ConfigurationError is returned if the configuration in the call, or that of the host, has errors.
type ConfigurationError struct{ Err error }

func (e *ConfigurationError) Error() string { return e.Err.Error() }
func (e *ConfigurationError) Unwrap() error { return e.Err }

// ProfileError is returned if the configuration in the call does not define the profile, or if the
// GPUs do not support it.
type ProfileError struct {
	Profile  string
	Accepted []string
	Err      error
}

func (e *ProfileError) Error() string { return e.Err.Error() }
func (e *ProfileError) Unwrap() error { return e.Err }

// AllowanceError is returned if the configuration in the call sets a key that an agent may not set, or
// that the administrator has set to another value.
type AllowanceError struct {
	Key string
	Err error
}

func (e *AllowanceError) Error() string { return e.Err.Error() }
func (e *AllowanceError) Unwrap() error { return e.Err }

// FailedError says why the profile is not on the GPUs.
type FailedError struct {
	Reason string `json:"reason"`
	Hint   string `json:"hint"`
	Undone bool   `json:"undone"` // the GPUs and the selection are unchanged
	Busy   bool   `json:"busy"`   // a process uses the GPUs; a retry may succeed
}

func (e *FailedError) Error() string { return e.Reason }

// toVarlinkError converts an error into a reply.
func toVarlinkError(err error) error {
	var call *varlink.Error
	var configuration *ConfigurationError
	var profile *ProfileError
	var allowance *AllowanceError
	var failed *FailedError
	answer := func(name string, parameters any) error {
		return &varlink.Error{Name: Name + "." + name, Parameters: parameters}
	}
	switch {
	case err == nil:
		return nil
	case errors.As(err, &call):
		return err
	case errors.As(err, &configuration):
		return answer("InvalidConfiguration", map[string]string{"message": configuration.Error()})
	case errors.As(err, &profile):
		return answer("NoSuchProfile", map[string]any{"profile": profile.Profile, "accepted": append([]string{}, profile.Accepted...), "message": profile.Error()})
	case errors.As(err, &allowance):
		return answer("NotAllowed", map[string]string{"key": allowance.Key, "message": allowance.Error()})
	case errors.As(err, &failed):
		return answer("Failed", failed)
	}
	return answer("Failed", &FailedError{Reason: err.Error()})
}
