package dbusapi

import (
	"context"
	"errors"
	"fmt"

	"github.com/godbus/dbus/v5"

	"dcm/internal/frontends/admission"
	"dcm/internal/sanitize"
)

// Names of the errors that a call returns on the bus.
const (
	errorFailed        = Interface + ".Error.Failed"        // the text is the reason
	errorConfiguration = Interface + ".Error.Configuration" // the text has one problem per line
	errorInsufficient  = Interface + ".Error.Short"         // too few partitions are free now
	errorImpossible    = Interface + ".Error.Impossible"    // too few even if all leases end
	errorOvertaken     = Interface + ".Error.Overtaken"     // another profile was selected meanwhile

	errorDenied      = "org.freedesktop.DBus.Error.AccessDenied"
	errorInteractive = "org.freedesktop.DBus.Error.InteractiveAuthorizationRequired"
	errorArguments   = "org.freedesktop.DBus.Error.InvalidArgs"
	errorLimit       = "org.freedesktop.DBus.Error.LimitsExceeded"
	errorReadOnly    = "org.freedesktop.DBus.Error.PropertyReadOnly"
	errorUnknownProp = "org.freedesktop.DBus.Error.UnknownProperty"
	errorUnknownIntf = "org.freedesktop.DBus.Error.UnknownInterface"
	errorNoService   = "org.freedesktop.DBus.Error.ServiceUnknown"
	errorNoReply     = "org.freedesktop.DBus.Error.NoReply"
	errorNoOwner     = "org.freedesktop.DBus.Error.NameHasNoOwner"
)

// ErrAbsent is returned if there is no bus, or no dcm on it.
var ErrAbsent = errors.New("dcm is not on the system bus")

// ErrGone is returned if the daemon ended before it replied. The request may have been
// carried out.
var ErrGone = errors.New("dcm ended before it replied")

// ErrDenied is returned if the caller is neither root nor authorised.
var ErrDenied = errors.New("not authorised")

// ErrCrowded is returned if a limit on calls is reached. A later call may succeed.
var ErrCrowded = errors.New("dcm is busy")

// InsufficientError is returned if too few partitions are free now.
type InsufficientError struct{ Err error }

func (e *InsufficientError) Error() string { return e.Err.Error() }
func (e *InsufficientError) Unwrap() error { return e.Err }

// IsInsufficient reports whether too few partitions were free. A later request may succeed.
func IsInsufficient(err error) bool {
	_, ok := errors.AsType[*InsufficientError](err)
	return ok
}

// ImpossibleError is returned if a request could not be granted even after all leases ended.
type ImpossibleError struct{ Err error }

func (e *ImpossibleError) Error() string { return e.Err.Error() }
func (e *ImpossibleError) Unwrap() error { return e.Err }

// IsImpossible reports whether a later request would fail too.
func IsImpossible(err error) bool {
	_, ok := errors.AsType[*ImpossibleError](err)
	return ok
}

// ConfigError is returned if the configuration on disk has an error.
type ConfigError struct{ Err error }

func (e *ConfigError) Error() string { return e.Err.Error() }
func (e *ConfigError) Unwrap() error { return e.Err }

// OvertakenError is returned if another profile was selected before the change was complete.
type OvertakenError struct{ Err error }

func (e *OvertakenError) Error() string { return e.Err.Error() }
func (e *OvertakenError) Unwrap() error { return e.Err }

// FailedError is any other failure. For Apply and Use its text says why the profile is not
// on the GPUs.
type FailedError struct{ Text string }

func (e *FailedError) Error() string { return e.Text }

// busError returns an error in the form that the bus transports.
func busError(name, text string) *dbus.Error { return dbus.NewError(name, []any{text}) }

// asBusError returns an error in the form that the bus transports.
func asBusError(err error) dbus.Error {
	var value dbus.Error
	var pointer *dbus.Error
	switch {
	case errors.As(err, &value):
		return value
	case errors.As(err, &pointer):
		return *pointer
	}
	errors.As(toBusError(err), &pointer)
	return *pointer
}

// toBusError converts an error of [Control] for the bus.
func toBusError(err error) error {
	var config *ConfigError
	var insufficient *InsufficientError
	var overtaken *OvertakenError
	var limit *admission.LimitError
	var impossible *ImpossibleError
	switch {
	case err == nil:
		return nil
	case errors.As(err, &limit):
		return busError(errorLimit, err.Error())
	case errors.As(err, &overtaken):
		return busError(errorOvertaken, err.Error())
	case err == context.DeadlineExceeded: // not wrapped: it is from a wait for other calls
		return busError(errorLimit, "dcm is overloaded and cannot answer in time; try again")
	case errors.As(err, &insufficient):
		return busError(errorInsufficient, err.Error())
	case errors.As(err, &impossible):
		return busError(errorImpossible, err.Error())
	case errors.As(err, &config):
		return busError(errorConfiguration, err.Error())
	}
	return busError(errorFailed, err.Error())
}

// fromBusError converts an error of the bus into one of this package's errors.
func fromBusError(err error) error {
	var remote dbus.Error
	if !errors.As(err, &remote) {
		return err
	}
	text := sanitize.Lines(remote.Error())
	switch remote.Name {
	case errorNoService, errorNoOwner:
		return ErrAbsent
	case errorNoReply:
		return ErrGone
	case errorDenied, errorInteractive:
		return fmt.Errorf("%w: %s", ErrDenied, text)
	case errorLimit:
		return fmt.Errorf("%w: %s", ErrCrowded, text)
	case errorInsufficient:
		return &InsufficientError{errors.New(text)}
	case errorImpossible:
		return &ImpossibleError{errors.New(text)}
	case errorConfiguration:
		return &ConfigError{errors.New(text)}
	case errorOvertaken:
		return &OvertakenError{errors.New(text)}
	}
	return &FailedError{text}
}
