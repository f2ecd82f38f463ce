package partition

// Shape is how a GPU is divided: by AMD's modes, or into NVIDIA's instances. The zero
// Shape says nothing.
type Shape struct {
	Mode
	MIG *MIG `json:"mig,omitempty"` // nil on a GPU that has modes
}

// Shape returns how the GPU is divided.
func (g GPU) Shape() Shape {
	if g.MIG != nil {
		return Shape{MIG: g.MIG}
	}
	return Shape{Mode: g.Mode()}
}

// String is the usual short form: "CPX/NPS4", "3g.40gb, 2×2g.20gb", "MIG off".
func (s Shape) String() string {
	if s.MIG != nil {
		return s.MIG.String()
	}
	return s.Mode.String()
}

// Key is equal for two shapes only if they are so in every detail, also in where an
// instance has its memory.
func (s Shape) Key() string {
	if s.MIG != nil {
		return s.MIG.key()
	}
	return s.Mode.String()
}

// Same tells whether there is nothing to do between the two.
func (s Shape) Same(o Shape) bool {
	if s.MIG == nil || o.MIG == nil {
		return s.MIG == o.MIG && s.Mode == o.Mode
	}
	return s.MIG.Same(*o.MIG)
}

// After is the shape of a GPU that the step has succeeded on, as far as the step's kind
// is seen at once.
func (s Shape) AfterStep(step Step) Shape {
	switch step.Kind {
	case SwitchCompute:
		s.Compute = Compute(step.To)
	case DestroyInstances:
		s.MIG = &MIG{}
	case SetMIGMode:
		s.MIG = &MIG{Off: !step.On()}
	case CreateInstances:
		s.MIG = step.MIG
	}
	return s
}
