package status

import "encoding/json"

// List is a list that is never null in JSON, so that a reader can count its elements without a
// check.
type List[T any] []T

// MarshalJSON writes an array, for a nil list an empty one.
func (l List[T]) MarshalJSON() ([]byte, error) {
	if l == nil {
		return []byte("[]"), nil
	}
	return json.Marshal([]T(l))
}
