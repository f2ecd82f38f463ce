package configure

import (
	"fmt"

	"dcm/internal/engine/config"
	"dcm/internal/gpu/partition"
)

// unmetReservations returns a warning for each reservation whose user or GPUs do not exist. known reports whether
// a user exists.
func unmetReservations(list []config.UserReservation, gpus []partition.GPU, known func(user string) bool) []string {
	var out []string
	for _, r := range list {
		if !known(r.User) {
			out = append(out, fmt.Sprintf("%s: reservation: user: no user %s: at these hours no lease gets the GPUs\nhint: for a user of a directory use its number", r.Source, r.User))
		}
		if _, err := partition.Select(r.GPUs, gpus); err != nil {
			out = append(out, fmt.Sprintf("%s: reservation: gpus: %s", r.Source, err))
		}
	}
	return out
}
