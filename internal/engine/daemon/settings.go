package daemon

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"reflect"
	"slices"
	"time"
)

// same reports whether two settings have the same effect.
func (s Settings) same(other Settings) bool { return reflect.DeepEqual(s.request(), other.request()) }

// request returns the settings without the fields that do not influence a run: the file and line
// that they come from, and the partitions chosen for reservations, which a run replaces.
func (s Settings) request() Settings {
	s.Source, s.UntilReboot, s.Warnings = "", false, nil
	s.ConfirmBy, s.Expired = time.Time{}, ""
	s.Order.Released = nil
	s.Order.Reserved = slices.Clone(s.Order.Reserved)
	for i := range s.Order.Reserved {
		s.Order.Reserved[i].Changed = false
	}
	return s
}

// hash is equal for settings with the same effect.
func (s Settings) hash() string {
	text, err := json.Marshal(s.request())
	if err != nil {
		return "" // equal to none
	}
	sum := sha256.Sum256(text)
	return hex.EncodeToString(sum[:8])
}
