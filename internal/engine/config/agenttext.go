package config

import (
	"fmt"
	"strings"

	"dcm/internal/engine/config/kubernetes"
	"dcm/internal/engine/config/rule"
	"dcm/internal/engine/config/source"
)

// The names of an agent's text in problems.
const (
	agentTOML = "dcm.toml"
	AgentJSON = kubernetes.DocumentKey
)

// maxAgentText is the largest text of an agent in bytes. A profile takes about 40 bytes. A text of
// 1 MiB takes seconds to parse, and 70 MiB of memory.
const maxAgentText = 64 << 10

// AgentText is the text of an agent, a config.json or a dcm.toml, without the host's files.
type AgentText struct {
	Config *Config
	File   string   // its name in problems
	Notes  []string // probable mistakes in it
}

// NotAllowedError reports a key that an agent may not set, or that a source with precedence over
// agents has set.
type NotAllowedError struct{ Key, Text string }

func (e *NotAllowedError) Error() string { return e.Text }

// LoadAgentText reads the text of an agent. The error is an [*Errors] or a [*NotAllowedError].
func LoadAgentText(text string) (*AgentText, error) {
	out := &AgentText{File: agentTOML}
	inJSON := strings.HasPrefix(strings.TrimLeft(strings.TrimPrefix(text, "\ufeff"), " \t\r\n"), "{")
	if inJSON {
		out.File = AgentJSON
	}
	if len(text) > maxAgentText {
		return nil, source.NewErrors(source.Problem{File: out.File, Line: 1, Text: "too large (want at most 64 KiB)"})
	}
	if p := source.CheckText(out.File, []byte(text)); p != nil {
		return nil, source.NewErrors(*p)
	}
	c := new(rule.Checker)
	var err error
	if inJSON {
		out.Config, err = LoadKubernetes(c, out.File, text, 0, nil)
	} else {
		out.Config, err = loadAgentTOML(c, out.File, text)
	}
	out.Notes = c.Warnings
	return out, err
}

func loadAgentTOML(c *rule.Checker, file, text string) (*Config, error) {
	root := tomlForm(schema)(c, layer{file: file, text: text})
	checkProfiles(c, root)
	if len(c.Problems) > 0 {
		return nil, source.NewErrors(source.Sort(c.Problems, file)...)
	}
	if err := notAllowed(root); err != nil {
		return nil, err
	}
	cfg := build(root)
	cfg.Selected = says(root).name
	return cfg, nil
}

// notAllowed returns the first key that an agent may not set.
func notAllowed(root *source.Node) error {
	open := agentSchema().Keys
	all := source.Children(root)
	for _, key := range all.Keys() {
		if _, ok := open[key]; ok {
			continue
		}
		n, name := all[key], key
		if below := source.Children(n); len(below) > 0 {
			inner := below.Keys()[0]
			n, name = below[inner], source.DottedKey(key, inner)
		}
		return &NotAllowedError{Key: name, Text: fmt.Sprintf("%s: %s: an agent may not set this key; accepted: profile and [profiles.NAME]. hint: set other keys in /etc/dcm/dcm.toml of the host", n.Place(), name)}
	}
	return nil
}
