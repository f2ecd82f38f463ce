package runstate

import (
	"errors"

	"dcm/internal/linux/statefile"
)

// Invalid returns the state files that this version of dcm cannot read, which count as missing until their
// writers replace them. dir is the runtime directory, and known the path of KnownFile.
func Invalid(dir, known string) []*statefile.InvalidError {
	var out []*statefile.InvalidError
	add := func(err error) {
		if invalid, ok := errors.AsType[*statefile.InvalidError](err); ok {
			out = append(out, invalid)
		}
	}
	add(problem(file(dir, PartitionsFile, func(p *Reserved) *int { return &p.Version })))
	add(problem(StateIn(dir)))
	add(problem(RunIn(dir)))
	add(problem(GuardIn(dir)))
	add(problem(discoveredIn(dir)))
	for _, note := range AllAsked(dir) {
		add(problem(note))
	}
	add(problem(WaitingIn(dir)))
	add(problem(KnownIn(known)))
	return out
}

func problem[T any](f statefile.File[T]) error {
	_, err := f.Read()
	return err
}
