package config

import (
	"fmt"

	"dcm/internal/engine/config/rule"
	"dcm/internal/engine/config/source"
	"dcm/internal/gpu/partition"
)

// groups is the rule of the groups of a profile.
func groups() rule.Rule {
	return rule.List(rule.Table(map[string]rule.Rule{
		"compute":           rule.OneOf("a compute partition mode", partition.ComputeModes()...),
		"memory-allocation": rule.Allocation(),
		"isolation":         rule.Boolean(),
		"mig":               rule.MIG(),
		"device":            rule.Devices(),
		"count":             count(),
		"gpus":              rule.Selectors(),
		"dynamic":           rule.Boolean(),
	}, oneGroup), allGroups)
}

// count is the rule of the number of GPUs of a group.
func count() rule.Rule {
	accepted := `an integer from 1, or "rest"`
	return rule.Rule{Check: func(c *rule.Checker, key string, n *source.Node) {
		switch v := n.Value.(type) {
		case int64:
			if v < 1 || v > rule.MaxGPUs {
				c.Fail(n, key, &source.Fault{Text: "not a number of GPUs", Accepted: accepted})
			}
		case string:
			if v != rule.Rest {
				c.Fail(n, key, &source.Fault{Text: "not a number of GPUs", Accepted: accepted, Suggestion: source.Nearest(v, []string{rule.Rest})})
			}
		default:
			c.Fail(n, key, rule.WrongType(accepted, n))
		}
	}}
}

// onlyModes fails for a setting of a group without modes.
func onlyModes(c *rule.Checker, key string, n *source.Node, setting string) {
	c.Fail(n.At(setting), source.DottedKey(key, setting), &source.Fault{Text: "valid only together with compute: it is a setting of AMD GPUs"})
}

// oneGroup checks the keys of a group together.
func oneGroup(c *rule.Checker, key string, n *source.Node) {
	compute, number, gpus := n.At("compute"), n.At("count"), n.At("gpus")
	by, device := n.At("mig"), n.At("device")
	switch {
	case compute == nil && by == nil:
		c.Fail(n, key, &source.Fault{Text: "compute is missing", Accepted: `compute = "…" with one of ` + partition.List(partition.ComputeModes()) + `, or mig for NVIDIA's GPUs`})
	case compute != nil && by != nil:
		c.Fail(by, source.DottedKey(key, "mig"), &source.Fault{Text: "compute (AMD) and mig (NVIDIA) exclude each other"})
	case by != nil && n.At("memory-allocation") != nil:
		onlyModes(c, key, n, "memory-allocation")
	case by != nil && n.At("isolation") != nil:
		onlyModes(c, key, n, "isolation")
	case device != nil && by == nil:
		c.Fail(device, source.DottedKey(key, "device"), &source.Fault{Text: "valid only together with mig"})
	}
	if dynamic := n.At("dynamic"); dynamic != nil && dynamic.Value == true && compute == nil && !rule.InstancesPossible(by) {
		c.Fail(dynamic, source.DottedKey(key, "dynamic"), &source.Fault{Text: "leases cannot divide a GPU without MIG", Accepted: `compute with the mode between leases, mig with the instances that always exist, or mig = {}`})
	}
	switch {
	case number != nil && gpus != nil:
		c.Fail(n, key, &source.Fault{Text: "count and gpus exclude each other"})
	case number == nil && gpus == nil:
		c.Fail(n, key, &source.Fault{Text: "count or gpus is missing", Accepted: `count = 2, count = "rest", gpus = ["0000:0c:00.0"]`})
	case gpus != nil && !gpus.Bad && len(gpus.Items()) == 0:
		c.Fail(gpus, source.DottedKey(key, "gpus"), &source.Fault{Text: "the list is empty"})
	}
}

// allGroups checks the groups of a profile together.
func allGroups(c *rule.Checker, key string, n *source.Node) {
	if len(n.Items()) == 0 {
		c.Fail(n, key, &source.Fault{Text: "the list is empty"})
	}
	sharedRest(c, key, n.Items())
}

// sharedRest reports two groups that take the rest of the same GPUs.
func sharedRest(c *rule.Checker, key string, groups []*source.Node) {
	modes, boards := (*source.Node)(nil), make(map[partition.Filter]*source.Node)
	for _, group := range groups {
		number := group.At("count")
		if number == nil || number.Value != rule.Rest || group.Broken() {
			continue
		}
		if group.At("mig") == nil {
			if modes != nil {
				c.Fail(number, source.DottedKey(key, "count"), &source.Fault{Text: fmt.Sprintf("the rest is already taken by the group on line %d", modes.Line)})
			} else {
				modes = number
			}
			continue
		}
		filters := rule.ReadDevices(group.At("device"))
		if len(filters) == 0 {
			filters = []partition.Filter{{}}
		}
		for _, f := range filters {
			switch before := boards[f]; {
			case before == number:
			case before == nil:
				boards[f] = number
			case f == partition.Filter{}:
				c.Fail(number, source.DottedKey(key, "count"), &source.Fault{Text: fmt.Sprintf("the rest is already taken by the group on line %d", before.Line)})
			default:
				c.Fail(number, source.DottedKey(key, "count"), &source.Fault{Text: fmt.Sprintf("the rest of the devices %s is already taken by the group on line %d", rule.FormatFilter(f), before.Line)})
			}
		}
	}
}
