package sim

// instance is a GPU instance that a GPU has, with the ids of its compute instances.
type instance struct {
	ID      int
	Compute []int
}

// instances are those of a GPU, as the stand-in of NVIDIA's library has made them.
func (n *Node) instances(b *board) []instance { return nil }

// forgetMIG is what a load of the module does to them.
func (n *Node) forgetMIG() error { return nil }
