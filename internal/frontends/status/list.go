package status

import "encoding/json"

// List is a list that is written to JSON as an array even if it is nil.
type List[T any] []T

// MarshalJSON writes an array, for a nil list an empty one.
func (l List[T]) MarshalJSON() ([]byte, error) {
	if l == nil {
		return []byte("[]"), nil
	}
	return json.Marshal([]T(l))
}
