package config

import (
	"time"

	"dcm/internal/engine/config/rule"
	"dcm/internal/engine/config/source"
	"dcm/internal/gpu/partition"
)

// schema has all keys of a dcm.toml. A new key needs an entry here, a field in [Config] and a line in
// build.
func schema() rule.Rule {
	return rule.Table(map[string]rule.Rule{
		"version": rule.Scalar("the integer 1", version),
		"profile": rule.Scalar("a string", rule.Selectable),
		"clients": rule.Table(map[string]rule.Rule{
			"units":    rule.List(rule.Scalar("a string", rule.Unit), rule.WarnRepeatedUnits),
			"require":  rule.Boolean(),
			"discover": rule.OneOf("a known value", Suggest, Include, NoDiscovery),
		}, nil),
		"client": declaredClients(),
		"budget": budgets(),
		"apply": rule.Table(map[string]rule.Rule{
			"unit-of-change": rule.OneOf("a known value", Node, GPU),
			"on-failure":     rule.OneOf("a known value", Rollback, Keep),
			"reload-driver":  rule.Boolean(),
			"at-load":        rule.Boolean(),
			"device-timeout": timeout(),
			"reboot":         rule.OneOf("a known value", Never, Once),
			"settle-time":    settleTime(),
		}, nil),
		"daemon": rule.Table(map[string]rule.Rule{
			"drift": rule.OneOf("a known value", Repair, Report),
		}, nil),
		"gpu": rule.Table(map[string]rule.Rule{
			"backend": rule.OneOf("a backend", Auto, Sysfs, AMDSMI),
			"library": rule.Scalar("a string", rule.AbsolutePath),
			"count":   rule.Scalar("an integer", gpuCount),
		}, nil),
		"reservation": reservations(),
		"leases":      leases(),
		"guard": rule.Table(map[string]rule.Rule{
			"observers": rule.List(rule.Scalar("a string", reservedUnit), rule.WarnRepeatedUnits),
		}, nil),
		"metrics": rule.Table(map[string]rule.Rule{
			"textfile": rule.Scalar("a string", directory),
		}, nil),
		"agent": rule.Table(map[string]rule.Rule{
			"enabled": rule.Boolean(),
		}, nil),
		"profiles": rule.Tables(rule.ProfileName, rule.Table(map[string]rule.Rule{
			"compute":           rule.OneOf("a compute partition mode", partition.ComputeModes()...),
			"memory":            rule.OneOf("a memory partition mode", partition.MemoryModes()...),
			"mig":               rule.MIG(),
			"memory-allocation": rule.Allocation(),
			"isolation":         rule.Boolean(),
			"skip":              rule.Selectors(),
			"group":             groups(),
		}, nil)),
	}, nil)
}

// selectionSchema has the keys of [SelectionFile] in [Paths].Runtime.
func selectionSchema() rule.Rule {
	return rule.Table(map[string]rule.Rule{
		"version": rule.Scalar("the integer 1", version),
		"profile": rule.Scalar("a string", rule.Selectable),
		"instead": rule.Scalar("a string", rule.Selectable),

		KeyConfirmBy:     rule.Scalar("a string", deadline),
		KeyConfirmWithin: confirmWindow(),
		KeyPermanent:     rule.Boolean(),
		KeyOtherwise:     rule.Scalar("a string", rule.Selectable),
	}, nil)
}

// agentSchema has the keys of [Paths].Agent. An agent may divide GPUs. It may not name a program, a
// library or a unit, and may not grant a permission.
func agentSchema() rule.Rule {
	all := schema().Keys
	return rule.Table(map[string]rule.Rule{"version": all["version"], "profile": all["profile"], "profiles": all["profiles"]}, nil)
}

func version(v int64) *source.Fault {
	if v == 1 {
		return nil
	}
	return &source.Fault{Text: "version not supported", Accepted: "1"}
}

// The start timeout of dcm-apply.service is longer than maxDeviceTimeout.
const (
	minDeviceTimeout = time.Second
	maxDeviceTimeout = time.Hour
)

func timeout() rule.Rule {
	return rule.Duration(func(d time.Duration) bool { return d >= minDeviceTimeout && d <= maxDeviceTimeout },
		`a duration from 1s to 1h, such as "60s", "2m" or "1m30s"`, "s")
}

func gpuCount(n int64) *source.Fault {
	if n >= 0 && n <= rule.MaxGPUs {
		return nil
	}
	return &source.Fault{Text: "not a number of GPUs", Accepted: "an integer from 1, or 0 for as many as there were at the last success"}
}
