package lease

import (
	"errors"
	"fmt"
	"strings"

	"dcm/internal/leases/placement"
	"dcm/internal/text"
)

// ErrNotMoved is returned if a scope was created but systemd did not move the process into it. A
// daemon-reexec makes systemd forget the process of a scope whose job is queued.
var ErrNotMoved = errors.New("systemd has moved no process into it")

// ErrEnding is returned if the unit that a scope requires is being stopped: the mode of a GPU is being switched
// back.
var ErrEnding = errors.New("the unit that it requires is being stopped")

// ErrUnreadable is returned if a vendor's driver does not answer, or answers differently while
// instances are created or destroyed.
var ErrUnreadable = errors.New("cannot read the dynamic GPUs")

// The reasons why no lease can start: the GPUs are being partitioned ([ErrChanging]), or a change
// waits for the end of all leases ([ErrDraining]).
var (
	ErrChanging = errors.New("the GPUs are being partitioned")
	ErrDraining = fmt.Errorf("%w when the leases have ended, and until then no new ones are granted", ErrChanging)
)

// InsufficientError is returned if too few partitions are free, or earlier requests wait for them.
type InsufficientError struct {
	Err     error
	Holders []string
	Hours   []string // those of Holders that are [Hours], which all users may see
}

func (e *InsufficientError) Error() string {
	if len(e.Holders) == 0 {
		return e.Err.Error()
	}
	list := e.Holders[:min(len(e.Holders), 8)]
	more := ""
	if n := len(e.Holders) - len(list); n > 0 {
		more = fmt.Sprintf(" and %d more", n)
	}
	if named, ok := errors.AsType[*placement.ShortError](e.Err); ok && named.Want.Named {
		return fmt.Sprintf("%s; held by %s%s", e.Err, strings.Join(list, ", "), more)
	}
	return fmt.Sprintf("%s; the others have %s%s", e.Err, strings.Join(list, ", "), more)
}

func (e *InsufficientError) Unwrap() error { return e.Err }

// ImpossibleError is returned for a request that cannot be met even after the end of all other
// leases. The reason is a reservation, a limit, or that no partition is of the requested kind.
type ImpossibleError struct{ Err error }

func (e *ImpossibleError) Error() string { return e.Err.Error() }
func (e *ImpossibleError) Unwrap() error { return e.Err }

// UnknownError is returned if the node has no partitions with the requested names.
type UnknownError struct{ Names []string }

func (e *UnknownError) Error() string {
	return fmt.Sprintf("no partition found for %s\nhint: dcm partitions lists them", text.Few(e.Names))
}

// LimitError is returned if the user, or the user's group, already has too many partitions.
type LimitError struct {
	Name              string // of the limit: "max-per-user in [leases]"
	Has, Wants, Limit int
	key               string // see bound
}

func (e *LimitError) Error() string {
	if e.Wants > e.Limit {
		return fmt.Sprintf("%d requested, but %s is %d", e.Wants, e.Name, e.Limit)
	}
	return fmt.Sprintf("%d more would exceed %s = %d: %d in use", e.Wants, e.Name, e.Limit, e.Has)
}

// WaitLimitError is returned if a request has waited for as long as it may.
type WaitLimitError struct {
	Err error // why it waited; nil if that is not known
}

func (e *WaitLimitError) Error() string {
	if e.Err == nil {
		return "the time to wait is over"
	}
	return "the time to wait is over: " + e.Err.Error()
}

func (e *WaitLimitError) Unwrap() error { return e.Err }

// RemovedError ends a request that was removed from the queue.
type RemovedError struct{ By uint32 }

func (e *RemovedError) Error() string {
	return fmt.Sprintf("the request was removed from the queue by user %d", e.By)
}

// OpenError names the processes that have the partitions of an exclusive lease open. They opened
// them after the partitions were chosen and before the guard protected them.
type OpenError struct{ Processes []string }

func (e *OpenError) Error() string { return strings.Join(e.Processes, ", ") }

// endingError is the reason why a request cannot start yet. It can when leases without processes have ended.
type endingError struct{ error }

func (e *endingError) Unwrap() error { return e.error }

// Passes reports whether an error is temporary, so that a later attempt may succeed.
func Passes(err error) bool {
	if _, impossible := errors.AsType[*ImpossibleError](err); impossible {
		return false
	}
	if _, waited := errors.AsType[*WaitLimitError](err); waited {
		return true
	}
	_, limit := errors.AsType[*LimitError](err)
	return insufficient(err) || limit || errors.Is(err, ErrChanging) || errors.Is(err, ErrNotMoved) || errors.Is(err, ErrEnding) || errors.Is(err, ErrUnreadable)
}

func insufficient(err error) bool {
	_, short := errors.AsType[*InsufficientError](err)
	return short
}

// brief returns the text of an error without the names of other holders.
func brief(err error) string {
	if short, ok := errors.AsType[*InsufficientError](err); ok && len(short.Hours) > 0 {
		return short.Err.Error() + "; some have " + strings.Join(short.Hours, ", ")
	} else if ok {
		return short.Err.Error()
	}
	return err.Error()
}
