package sequence

import "slices"

// spared returns the devices of the GPUs that change, if pods on the other GPUs of the node can stay. The
// API must say for all pods and devices which GPUs they use, so there may be no device plugin.
func spared(s Input) (devices []string, ok bool) {
	if last := s.Node.Last; last != nil && last.Target == s.Node.Op.Target && last.Outcome != nil && last.Outcome.Whole {
		return nil, false
	}
	if s.Taints == nil || !s.Taints.Served || len(s.Plan.GPUs) == 0 || s.Plan.Reload || !s.Pods.Driver || s.Pods.Plugin || offers(s.Node.Allocatable) ||
		slices.ContainsFunc(s.Pods.Work, func(p Pod) bool { return p.Devices == nil }) {
		return nil, false
	}
	for _, d := range s.Pods.Devices {
		switch {
		case d.Pool != s.Node.Name || len(d.GPU) == 0:
			return nil, false
		case slices.ContainsFunc(d.GPU, func(name string) bool { return slices.Contains(s.Plan.GPUs, name) }):
			devices = append(devices, d.Name)
		}
	}
	return devices, len(devices) < len(s.Pods.Devices)
}

// exceeds reports whether the target changes other GPUs than those that the operation has drained.
func exceeds(s Input, op Operation) bool {
	return len(op.GPUs) > 0 && s.Plan.Refusal == nil && s.Plan.Changes && (len(s.Plan.GPUs) == 0 || s.Plan.Reload ||
		slices.ContainsFunc(s.Plan.GPUs, func(name string) bool { return !slices.Contains(op.GPUs, name) }))
}

// affected returns the pods without those that use only other GPUs than the operation changes.
func affected(s Input, op Operation) *Pods {
	all := *s.Pods
	if len(op.GPUs) > 0 {
		all.Work = slices.DeleteFunc(slices.Clone(all.Work), func(p Pod) bool {
			return p.Devices != nil && !slices.ContainsFunc(op.Devices, func(device string) bool { return slices.Contains(p.Devices, s.Node.Name+"/"+device) })
		})
	}
	return &all
}

// sparing waits until no pod uses the GPUs that change. Meanwhile other pods may start on the node, so it
// is not cordoned. It undoes the beginning as [draining] does.
func sparing(s Input, op Operation) Step {
	op.WasCordoned, op.WasTainted = s.Node.Cordoned, s.Node.Tainted // an administrator may do that meanwhile
	if step, ok := interrupted(s, op, s.Plan != nil && s.Pods != nil && s.Taints != nil); ok {
		return step
	}
	if missing := slices.DeleteFunc(slices.Clone(op.Devices), func(d string) bool { return slices.Contains(s.Taints.Devices, d) }); len(missing) > 0 {
		return Step{Act: TaintDevices{Devices: missing}, Condition: isFalse("Draining", "tainting the devices that change")}
	}
	s.Pods = affected(s, op)
	switch {
	case len(s.Pods.Work) == 0:
		op.Phase, op.Since = Draining, s.Now
		return keep(op, "Draining", "no pod uses the GPUs that change; stopping the operands")
	case s.overdue(op):
		return undo(s, op, undrained(s, nil))
	}
	return evict(s, isFalse("Draining", "waits for "+list(s.Pods.Work)))
}
