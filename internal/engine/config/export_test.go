package config

import "dcm/internal/engine/config/rule"

// Blanks are the bytes that separate arguments of the kernel command line.
const Blanks = blanks

// LoadText loads one dcm.toml without the files of a host.
func LoadText(file, text string) (*Config, error) {
	return assemble([]layer{{file: file, text: text, form: tomlForm(schema)}}, nil, "")
}

// LoadCommandLine loads a kernel command line without any file.
func LoadCommandLine(line string) (*Config, error) { return assemble(nil, nil, line) }

// Arguments returns the arguments of a kernel command line.
func Arguments(line string) []string { return arguments(line) }

// Schema returns the rule of a dcm.toml.
func Schema() rule.Rule { return schema() }
