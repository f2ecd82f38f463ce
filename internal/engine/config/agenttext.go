package config

import (
	"fmt"
	"strings"
)

// The names of an agent's text in problems.
const (
	agentTOML = "dcm.toml"
	agentJSON = inConfigMap
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
		out.File = agentJSON
	}
	if len(text) > maxAgentText {
		return nil, &Errors{[]Problem{{File: out.File, Line: 1, Text: "larger than 64 KiB, the most that an agent may send"}}}
	}
	if p := checkText(out.File, []byte(text)); p != nil {
		return nil, &Errors{[]Problem{*p}}
	}
	c := new(checker)
	var err error
	if inJSON {
		out.Config, err = loadKubernetes(c, out.File, text, 0, nil)
	} else {
		out.Config, err = loadAgentTOML(c, out.File, text)
	}
	out.Notes = c.warnings
	return out, err
}

func loadAgentTOML(c *checker, file, text string) (*Config, error) {
	root, broken := parseTOML(file, text)
	if broken != nil {
		return nil, &Errors{[]Problem{*broken}}
	}
	c.root = schema()
	c.root.judge(c, "", root)
	checkProfiles(c, root)
	if len(c.problems) > 0 {
		return nil, &Errors{sorted(c.problems, []layer{{file: file}})}
	}
	if err := notAllowed(root); err != nil {
		return nil, err
	}
	cfg := build(root)
	cfg.Selected = says(root).name
	return cfg, nil
}

// notAllowed returns the first key that an agent may not set.
func notAllowed(root *node) error {
	open := agentForm().keys
	all := tables(root)
	for _, key := range all.keys() {
		if _, ok := open[key]; ok {
			continue
		}
		n, name := all[key], key
		if below := tables(n); len(below) > 0 {
			inner := below.keys()[0]
			n, name = below[inner], dotted(key, inner)
		}
		return &NotAllowedError{Key: name, Text: fmt.Sprintf("%s: %s: an agent may not set this; accepted: profile and [profiles.NAME]. What else this host does is said in its own /etc/dcm/dcm.toml", n.place(), name)}
	}
	return nil
}
