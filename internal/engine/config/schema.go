package config

import (
	"fmt"
	"path/filepath"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"dcm/internal/gpu/partition"
	"dcm/internal/sanitize"
)

// schema is every key that a TOML file of dcm may hold. A new table is a line
// here, a field in Config and its reading in build.
func schema() rule {
	return fixed(map[string]rule{
		"version": scalar("the integer 1", version),
		"profile": scalar("a string", selectable),
		"clients": fixed(map[string]rule{
			"units":    list(scalar("a string", unitFault), onceEach),
			"require":  boolean(),
			"discover": oneOf("what to do with a service that is found using a GPU", Suggest, Include, NoDiscovery),
		}, nil),
		"apply": fixed(map[string]rule{
			"on-failure":     oneOf("what to do on a failure", Rollback, Keep),
			"reload-driver":  boolean(),
			"at-load":        boolean(),
			"device-timeout": timeout(),
			"reboot":         oneOf("when to reboot", Never, Once),
		}, nil),
		"daemon": fixed(map[string]rule{
			"drift": oneOf("what to do about a drift", Repair, Report),
		}, nil),
		"gpu": fixed(map[string]rule{
			"backend": oneOf("a backend", Auto, Sysfs, AMDSMI),
			"library": scalar("a string", absolute),
			"count":   scalar("an integer", gpuCount),
		}, nil),
		"reservation": reservations(),
		"leases":      leases(),
		"guard": fixed(map[string]rule{
			"observers": list(scalar("a string", reservedUnit), onceEach),
		}, nil),
		"metrics": fixed(map[string]rule{
			"textfile": scalar("a string", directory),
		}, nil),
		"agent": fixed(map[string]rule{
			"enabled": boolean(),
		}, nil),
		"profiles": named(profileName, fixed(map[string]rule{
			"compute": oneOf("a compute partition mode", partition.ComputeModes()...),
			"memory":  oneOf("a memory partition mode", partition.MemoryModes()...),
			"mig":     mig(),
			"skip":    selectors(),
			"group":   groups(),
		}, nil)),
	}, nil)
}

func version(v int64) *fault {
	if v == 1 {
		return nil
	}
	return &fault{text: "not a version that this dcm reads", accepted: "1"}
}

// selectable judges the name as such; that the profile exists is judged when all
// layers are known.
func selectable(name string) *fault {
	if name == "" || name == None {
		return nil
	}
	return profileName(name)
}

// profileName refuses what could not be told apart in a report or be given on
// the kernel command line.
func profileName(name string) *fault {
	odd := strings.ContainsFunc(name, func(r rune) bool { return !unicode.IsPrint(r) || r == '"' })
	switch {
	case name == None:
		return &fault{text: "no profile can have this name: it selects none"}
	case name == "":
		return &fault{text: "a profile needs a name"}
	case odd || len(name) > 64 || !utf8.ValidString(name) || strings.TrimSpace(name) != name:
		return &fault{text: "not a name for a profile", accepted: "at most 64 bytes of printable text, without \" and without blanks at its ends"}
	}
	return nil
}

// The oneshot's own start timeout is longer than the longest of these.
const (
	shortest = time.Second
	longest  = time.Hour
)

func timeout() rule {
	return duration(func(d time.Duration) bool { return d >= shortest && d <= longest },
		`a duration from 1s to 1h, such as "60s", "2m" or "1m30s"`, "s")
}

// duration is a time with its unit. A number without one is suggested to have the usual.
func duration(allowed func(time.Duration) bool, accepted, usual string) rule {
	return rule{judge: func(c *checker, key string, n *node) {
		if v, ok := n.value.(int64); ok {
			c.fail(n, key, &fault{"has no unit", accepted, fmt.Sprintf("%d%s", v, usual)})
			return
		}
		scalar("a string", func(s string) *fault {
			d, err := time.ParseDuration(s)
			switch {
			case err != nil:
				return &fault{text: "not a duration", accepted: accepted}
			case !allowed(d):
				return &fault{text: "out of range", accepted: accepted}
			}
			return nil
		}).judge(c, key, n)
	}}
}

func gpuCount(n int64) *fault {
	if n >= 0 && n <= mostGPUs {
		return nil
	}
	return &fault{text: "no number of GPUs", accepted: "an integer from 1, or 0 for as many as there were at the last success"}
}

func absolute(path string) *fault {
	if path == "" || filepath.IsAbs(path) && filepath.Clean(path) == path && sanitize.Text(path) == path {
		return nil
	}
	return &fault{text: "not a plain absolute path", accepted: `a path such as "/opt/rocm/lib/libamd_smi.so", or "" for the usual places`}
}
