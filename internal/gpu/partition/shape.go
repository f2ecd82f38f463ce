package partition

// Shape is the partitioning of one GPU: AMD's modes or NVIDIA's instances. The zero Shape is
// unknown.
type Shape struct {
	Mode
	Settings
	MIG *MIG `json:"mig,omitempty"` // nil for a GPU with modes
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
	return s.Mode.String() + s.text()
}

// Same reports whether no step is needed from one shape to the other. An unknown setting equals
// every other one.
func (s Shape) Same(o Shape) bool {
	if s.MIG == nil || o.MIG == nil {
		return s.MIG == o.MIG && s.Mode == o.Mode && s.Settings.same(o.Settings)
	}
	return s.MIG.Same(*o.MIG)
}

// AfterStep returns the shape after a successful step. A memory request does not change it.
func (s Shape) AfterStep(step Step) Shape {
	if one, ok := settingOf(step.Kind); ok {
		*one.at(&s.Settings) = step.To
		return s
	}
	switch step.Kind {
	case SwitchCompute:
		s.Settings = s.afterSwitch(s.Compute, Compute(step.To))
		s.Compute = Compute(step.To)
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
