package partition

// Shape is the partitioning of one GPU: AMD's modes or NVIDIA's instances. The zero Shape is
// unknown.
type Shape struct {
	Mode
	Allocation Allocation `json:"memory_allocation,omitempty"` // "" if the driver shows none
	MIG        *MIG       `json:"mig,omitempty"`               // nil for a GPU with modes
}

// String returns the short form: "CPX/NPS4", "3g.40gb, 2 × 2g.20gb", "MIG off".
func (s Shape) String() string {
	if s.MIG != nil {
		return s.MIG.String()
	}
	return s.Mode.String()
}

// Key returns a text that differs for shapes that differ in any detail, placements included.
func (s Shape) Key() string {
	if s.MIG != nil {
		return s.MIG.key()
	}
	if s.Allocation == "" {
		return s.Mode.String()
	}
	return s.Mode.String() + " " + string(s.Allocation)
}

// Same reports whether no step is needed from one shape to the other. An unknown allocation equals
// every other one.
func (s Shape) Same(o Shape) bool {
	if s.MIG == nil || o.MIG == nil {
		return s.MIG == o.MIG && s.Mode == o.Mode && (s.Allocation == o.Allocation || s.Allocation == "" || o.Allocation == "")
	}
	return s.MIG.Same(*o.MIG)
}

// AfterStep returns the shape after a successful step. A memory request does not change it.
func (s Shape) AfterStep(step Step) Shape {
	switch step.Kind {
	case SwitchCompute:
		s.Compute = Compute(step.To)
		s.Allocation = s.Allocation.reset()
	case SetAllocation:
		s.Allocation = Allocation(step.To)
	case DestroyInstances, CreateInstances:
		m := step.Geometry()
		s.MIG = &m
	case SetMIGMode:
		if s.MIG == nil || s.MIG.Off == step.On() {
			s.MIG = &MIG{Off: !step.On()}
		}
	}
	return s
}
