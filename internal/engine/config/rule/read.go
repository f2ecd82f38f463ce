package rule

import "dcm/internal/engine/config/source"

// Read sets what the tree says; what it does not say keeps its default.
func Read[T any](n *source.Node, to *T) {
	if n != nil {
		*to = n.Value.(T)
	}
}

func ReadInt(n *source.Node, to *int) {
	if n != nil {
		*to = int(n.Value.(int64))
	}
}

func ReadString[S ~string](n *source.Node, to *S) {
	if n != nil {
		*to = S(n.Value.(string))
	}
}
