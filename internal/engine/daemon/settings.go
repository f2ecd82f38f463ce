package daemon

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"reflect"
	"slices"
)

// same reports whether two settings ask for the same, wherever they are written.
func (s Settings) same(other Settings) bool { return reflect.DeepEqual(s.request(), other.request()) }

// request is what settings ask for: not where that is written, nor what was chosen for
// reservations so far, which a run changes.
func (s Settings) request() Settings {
	s.Source, s.Warnings = "", nil
	s.Order.Released = nil
	s.Order.Reserved = slices.Clone(s.Order.Reserved)
	for i := range s.Order.Reserved {
		s.Order.Reserved[i].Changed = false
	}
	return s
}

// hash is equal for settings that ask for the same.
func (s Settings) hash() string {
	text, err := json.Marshal(s.request())
	if err != nil {
		return "" // equal to none
	}
	sum := sha256.Sum256(text)
	return hex.EncodeToString(sum[:8])
}
