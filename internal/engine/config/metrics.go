package config

import (
	"dcm/internal/engine/config/rule"
	"dcm/internal/engine/config/source"
)

// Off switches off what is on by itself.
const Off = "off"

// directory judges metrics.textfile.
func directory(path string) *source.Fault {
	if path == Off || rule.AbsolutePath(path) == nil {
		return nil
	}
	return &source.Fault{Text: "not a clean absolute path", Accepted: `a directory such as "/var/lib/node_exporter/textfile", "off", or "" for the usual one`}
}
