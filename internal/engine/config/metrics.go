package config

// Off switches off what is on by itself.
const Off = "off"

// directory judges metrics.textfile.
func directory(path string) *fault {
	if path == Off || absolute(path) == nil {
		return nil
	}
	return &fault{text: "not a plain absolute path", accepted: `a directory such as "/var/lib/node_exporter/textfile", "off", or "" for the usual one`}
}
