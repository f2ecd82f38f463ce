package serve

import (
	"errors"
	"fmt"
)

// Failure is the error of a reply. K is the type of the program's kinds of errors.
type Failure[K ~string] struct {
	Kind   K      `json:"kind"`
	Text   string `json:"text"`
	Status uint32 `json:"status,omitempty"` // status of the library, 0 if it gave none
}

func (f *Failure[K]) Error() string { return f.Text }

// Fail returns a [Failure] of a kind.
func Fail[K ~string](kind K, format string, args ...any) error {
	return &Failure[K]{Kind: kind, Text: fmt.Errorf(format, args...).Error()}
}

// AsFailure returns err as a Failure, of the kind otherwise if it is none; nil for nil.
func AsFailure[K ~string](err error, otherwise K) *Failure[K] {
	if err == nil {
		return nil
	}
	if f, ok := errors.AsType[*Failure[K]](err); ok {
		return f
	}
	return &Failure[K]{Kind: otherwise, Text: err.Error()}
}
