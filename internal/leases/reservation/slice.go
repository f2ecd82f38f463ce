package reservation

import (
	"errors"
	"fmt"
	"slices"

	"dcm/internal/engine/config"
	"dcm/internal/engine/host"
	"dcm/internal/linux/systemd"
	"dcm/internal/linux/unitname"
)

// SliceError is that a reservation's unit has a Slice= of its own. It would have to be
// overridden, and whoever wrote it down may have had a reason: so it is refused.
type SliceError struct {
	Reservation config.Reservation
	Slice       systemd.Setting
}

func (e *SliceError) Error() string {
	return fmt.Sprintf("%s: %s has %s, and who has partitions runs in %s", e.Reservation.Source, e.Reservation.Unit, e.Slice, unitname.Slice)
}

// Hint is what an administrator can do about it.
func (e *SliceError) Hint() string {
	return fmt.Sprintf("take that Slice= away, or make the slice one below %s (Slice=dcm-NAME.slice); then systemctl daemon-reload and dcm apply", unitname.Slice)
}

// Misplaced tells which reservations' units have a Slice= of their own that is not
// below dcm.slice. What cannot be read says nothing.
func Misplaced(h *host.Host, list []config.Reservation) error {
	var errs []error
	for _, r := range list {
		if e := CheckSlice(h, r, true); e != nil {
			errs = append(errs, e)
		}
	}
	return errors.Join(errs...)
}

func CheckSlice(h *host.Host, r config.Reservation, generated bool) *SliceError {
	if s := sliceOf(h, r, generated); s.Value != "" && !s.Inside(unitname.Slice) {
		return &SliceError{r, s}
	}
	return nil
}

// sliceOf is what a reservation's unit says itself of where it runs.
func sliceOf(h *host.Host, r config.Reservation, generated bool) systemd.Setting {
	if r.Unit == "" {
		return systemd.Setting{}
	}
	return ownSlice(h, r.Unit, generated)
}

func ownSlice(h *host.Host, unit string, generated bool) systemd.Setting {
	s, err := systemd.OwnSlice(h.Path(), unit, generated)
	if err != nil {
		return systemd.Setting{} // systemd tells of a unit that it cannot read
	}
	return s
}

// withoutOwnSlice leaves out observers with a Slice= of their own. They would start elsewhere as
// well, and so are left where they are wanted, be that below dcm.slice or not.
func withoutOwnSlice(h *host.Host, observers []string) []string {
	return slices.DeleteFunc(slices.Clone(observers), func(unit string) bool {
		own := ownSlice(h, unit, false).Value
		return own != "" && own != unitname.Slice
	})
}

// Elsewhere tells of observers whose Slice= keeps them from what they are to see.
func Elsewhere(h *host.Host, observers []string) []string {
	var out []string
	for _, unit := range observers {
		if s := ownSlice(h, unit, true); s.Value != "" && !s.Inside(unitname.Slice) && s.Value != unitname.ObserverSlice {
			out = append(out, fmt.Sprintf("%s, one of observers in [guard], has %s, and partitions that are reserved exclusively are seen in %s alone: take that Slice= away, or make the slice one below %s (Slice=dcm-NAME.slice)", unit, s, unitname.ObserverSlice, unitname.Slice))
		}
	}
	return out
}

// ReservationSlice returns the slice that the unit of a reservation is to run in. For a
// reservation without a unit, it is the slice below which its partitions open if they are
// exclusive.
func ReservationSlice(h *host.Host, name, unit string) string {
	if unit == "" {
		return unitname.HolderSlice(name)
	}
	return systemd.ReservationSlice(name, ownSlice(h, unit, false))
}
