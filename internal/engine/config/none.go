package config

import "dcm/internal/engine/config/rule"

// None is the name that selects no profile, on the kernel command line and in the files.
const None = rule.None

// OrNone returns [None] for "".
func OrNone(name string) string {
	if name == "" {
		return rule.None
	}
	return name
}

// OrEmpty returns "" for [None].
func OrEmpty(name string) string {
	if name == rule.None {
		return ""
	}
	return name
}
