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

// SliceError is returned if a reservation's unit has a Slice= of its own. dcm does not override it,
// since the administrator may need it.
type SliceError struct {
	Reservation config.Reservation
	Slice       systemd.Setting
}

func (e *SliceError) Error() string {
	return fmt.Sprintf("%s: %s has %s, but units with partitions must run in %s", e.Reservation.Source, e.Reservation.Unit, e.Slice, unitname.Slice)
}

// Hint returns what the administrator can do.
func (e *SliceError) Hint() string {
	return fmt.Sprintf("remove that Slice=, or use a slice below %s (Slice=dcm-NAME.slice); then systemctl daemon-reload and dcm apply", unitname.Slice)
}

// Misplaced returns the [SliceError] of each reservation whose unit has a Slice= that is not below
// dcm.slice. It ignores units that cannot be read.
func Misplaced(h *host.Host, list []config.Reservation) error {
	var errs []error
	for _, r := range list {
		if e := CheckSlice(h, r, true); e != nil {
			errs = append(errs, e)
		}
	}
	return errors.Join(errs...)
}

// CheckSlice is [Misplaced] for one reservation. With generated, it also reads the unit files that
// generators wrote.
func CheckSlice(h *host.Host, r config.Reservation, generated bool) *SliceError {
	if s := sliceOf(h, r, generated); s.Value != "" && !s.Inside(unitname.Slice) {
		return &SliceError{r, s}
	}
	return nil
}

// sliceOf returns the Slice= of a reservation's unit.
func sliceOf(h *host.Host, r config.Reservation, generated bool) systemd.Setting {
	if r.Unit == "" {
		return systemd.Setting{}
	}
	return ownSlice(h, r.Unit, generated)
}

func ownSlice(h *host.Host, unit string, generated bool) systemd.Setting {
	s, err := systemd.OwnSlice(h.Path(), unit, generated)
	if err != nil {
		return systemd.Setting{} // systemd reports a unit that it cannot read
	}
	return s
}

// withoutOwnSlice removes observers with a Slice= of their own, which dcm does not override.
func withoutOwnSlice(h *host.Host, observers []string) []string {
	return slices.DeleteFunc(slices.Clone(observers), func(unit string) bool {
		own := ownSlice(h, unit, false).Value
		return own != "" && own != unitname.Slice
	})
}

// Elsewhere returns a warning for each observer whose slice keeps it from opening exclusive
// partitions.
func Elsewhere(h *host.Host, observers []string) []string {
	var out []string
	for _, unit := range observers {
		if s := ownSlice(h, unit, true); s.Value != "" && !s.Inside(unitname.Slice) && s.Value != unitname.ObserverSlice {
			out = append(out, fmt.Sprintf("%s: the observer cannot open exclusive partitions in its slice (found %s, want %s or a slice below %s). hint: remove Slice=, or set Slice=dcm-NAME.slice", unit, s, unitname.ObserverSlice, unitname.Slice))
		}
	}
	return out
}

// ReservationSlice returns the slice that the unit of a reservation has to run in. For an exclusive
// reservation without a unit, it is the slice whose processes may open the partitions.
func ReservationSlice(h *host.Host, name, unit string) string {
	if unit == "" {
		return unitname.HolderSlice(name)
	}
	return systemd.ReservationSlice(name, ownSlice(h, unit, false))
}
