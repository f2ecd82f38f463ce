package rule

import "dcm/internal/engine/config/source"

// Read sets a value from a checked node. A missing node leaves it unchanged.
func Read[T any](n *source.Node, to *T) {
	if n != nil {
		*to = n.Value.(T)
	}
}

// ReadInt is Read for integers.
func ReadInt(n *source.Node, to *int) {
	if n != nil {
		*to = int(n.Value.(int64))
	}
}

// ReadString is Read for string types.
func ReadString[S ~string](n *source.Node, to *S) {
	if n != nil {
		*to = S(n.Value.(string))
	}
}
