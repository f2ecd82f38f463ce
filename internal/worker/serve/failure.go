package serve

import (
	"errors"
	"fmt"
)

// Failure is the error of a reply. K is the type of the program's kinds of errors.
type Failure[K ~string] struct {
	Kind   K      `json:"kind"`
	Text   string `json:"text"`
	Status uint32 `json:"status,omitempty"` // status code of the library; 0 if there is none
}

func (f *Failure[K]) Error() string { return f.Text }

// Fail returns a [Failure] of a kind.
func Fail[K ~string](kind K, format string, args ...any) error {
	return &Failure[K]{Kind: kind, Text: fmt.Errorf(format, args...).Error()}
}

// AsFailure converts an error to a Failure. An error of another type gets the kind otherwise. For nil
// it returns nil.
func AsFailure[K ~string](err error, otherwise K) *Failure[K] {
	if err == nil {
		return nil
	}
	if f, ok := errors.AsType[*Failure[K]](err); ok {
		return f
	}
	return &Failure[K]{Kind: otherwise, Text: err.Error()}
}
