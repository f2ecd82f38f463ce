package config

import (
	"dcm/internal/engine/config/rule"
	"dcm/internal/engine/config/source"
)

// Off turns off a function that is on by default.
const Off = "off"

// directory checks metrics.textfile.
func directory(path string) *source.Fault {
	if path == Off || rule.AbsolutePath(path) == nil {
		return nil
	}
	return &source.Fault{Text: "not a clean absolute path", Accepted: `a directory such as "/var/lib/node_exporter/textfile", "off", or "" for the usual one`}
}
