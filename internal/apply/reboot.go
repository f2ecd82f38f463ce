package apply

import (
	"context"
	"errors"

	"dcm/internal/amdgpu"
)

// rebootError is an error that a reboot may help against, and nothing less.
type rebootError struct{ error }

func (e *rebootError) Unwrap() error { return e.error }

// hopeless marks the error of a reload that failed because the driver could not be
// unloaded although no process has a GPU open. Then it is in use by the kernel
// itself, for a console or for sound, and that lasts until the next boot, where dcm
// comes before both. With a process to blame it is only busy, and
// with processes that may not be looked at nobody knows.
func (r *run) hopeless(ctx context.Context, err error) error {
	reload, ok := errors.AsType[*amdgpu.ReloadError](err)
	if !ok || !reload.Unload {
		return err
	}
	holders, unseen := r.node.Holders(context.WithoutCancel(ctx))
	if len(holders) > 0 || unseen != nil {
		return err
	}
	return &rebootError{err}
}
