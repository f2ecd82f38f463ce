package config

import (
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"

	"dcm/internal/gpu/partition"
)

// The names of an agent's text in problems.
const (
	agentTOML = "dcm.toml"
	agentJSON = inConfigMap
)

// agentForm is all that the file of agents may say: how GPUs are divided, and nothing
// that names a program, a library or a unit, or that is the administrator's to allow.
func agentForm() rule {
	all := schema().keys
	return fixed(map[string]rule{"version": all["version"], "profile": all["profile"], "profiles": all["profiles"]}, nil)
}

func readAgent(c *checker, l layer) *node {
	root, broken := parseTOML(l.file, l.text)
	if broken != nil {
		c.problems = append(c.problems, *broken)
		return nil
	}
	c.root = agentForm()
	c.root.judge(c, "", root)
	return root
}

// read reads the layers: that of agents as the others say, and nil where it does not
// count. Others that cannot be read are nil, too.
func (c *checker) read(layers []layer) []*node {
	all, enabled := make([]*node, len(layers)), false
	for i, l := range layers {
		if l.agent {
			continue
		}
		all[i] = l.form(c, l)
		if n := all[i].at("agent", "enabled"); n != nil {
			enabled, _ = n.value.(bool)
		}
	}
	for i, l := range layers {
		switch {
		case l.agent && enabled:
			all[i] = l.form(c, l)
		case l.agent:
			c.warnings = append(c.warnings, l.file+": has no effect: [agent] enabled is not true")
		}
	}
	return all
}

// without takes the profiles out of sum that an agent defines: what it says of one is
// all of it, and not to be mixed with what somebody else has said under that name.
func (c *checker) without(sum, agent *node) *node {
	below, own := tables(sum.at("profiles")), tables(agent.at("profiles"))
	rest := maps.Clone(below)
	for _, name := range own.keys() {
		was := below[name]
		if was == nil {
			continue
		}
		if !reflect.DeepEqual(said(was), said(own[name])) {
			c.warn(was, "profile %s has no effect: an agent defines it, at %s", clip(name), own[name].place())
		}
		delete(rest, name)
	}
	if len(rest) == len(below) {
		return sum
	}
	out := maps.Clone(tables(sum))
	out["profiles"] = derived(sum.at("profiles"), rest)
	return derived(sum, out)
}

// wish is an agent's text by itself.
type wish struct {
	config  *Config
	profile partition.Profile
	notes   []string
}

// largestWish is how large a text of an agent's may be, in bytes. A profile takes about 40;
// a text of 1 MiB takes seconds to parse, and 70 MiB of memory.
const largestWish = 64 << 10

// readWish reads a config.json or a dcm.toml of an agent's, and the profile to be taken
// out of it.
func readWish(text, profile string) (wish, error) {
	file := agentTOML
	inJSON := strings.HasPrefix(strings.TrimLeft(strings.TrimPrefix(text, "\ufeff"), " \t\r\n"), "{")
	if inJSON {
		file = agentJSON
	}
	if len(text) > largestWish {
		return wish{}, &Errors{[]Problem{{File: file, Line: 1, Text: "larger than 64 KiB, the most that an agent may send"}}}
	}
	if p := sensible(file, []byte(text)); p != nil {
		return wish{}, &Errors{[]Problem{*p}}
	}
	c := new(checker)
	cfg, err := c.wished(file, text, inJSON)
	if err != nil {
		return wish{}, err
	}
	w := wish{config: cfg, notes: c.warnings}
	if selected := cfg.Selected; selected != "" && selected != profile {
		w.notes = append(w.notes, fmt.Sprintf("%s: profile = %s is not what is selected: the call names %s", file, clip(selected), clip(profile)))
	}
	if why := cfg.Unusable[profile]; why != nil {
		return wish{}, why
	}
	if profile != "" && profile != None {
		if w.profile, err = cfg.Lookup(profile); err == nil {
			return w, nil
		}
	}
	return wish{}, &NoProfileError{Profile: profile, Accepted: cfg.Names(), Text: noProfile(profile, cfg.Names()).String()}
}

func (c *checker) wished(file, text string, inJSON bool) (*Config, error) {
	if inJSON {
		return c.alone(file, text, 0)
	}
	root, broken := parseTOML(file, text)
	if broken != nil {
		return nil, &Errors{[]Problem{*broken}}
	}
	c.root = schema()
	c.root.judge(c, "", root)
	c.profiles(root)
	if len(c.problems) > 0 {
		return nil, &Errors{sorted(c.problems, []layer{{file: file}})}
	}
	if err := foreclosed(root); err != nil {
		return nil, err
	}
	cfg := build(root)
	cfg.Selected = says(root).name
	return cfg, nil
}

// foreclosed names the first key that is not an agent's to set.
func foreclosed(root *node) error {
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

// file is the text that is installed for the wish. Of its profiles it has the selected one
// alone: no other is used, and all of them would be parsed at each start and reload.
func (w wish) file() string {
	var b strings.Builder
	b.WriteString("# Written by an agent, through the socket that [agent] in dcm.toml opens. It counts as\n" +
		"# long as that is so. To end it: enabled = false there.\n" +
		"version = 1\nprofile = " + quote(w.profile.Name) + "\n")
	if _, defined := w.config.Profiles[w.profile.Name]; defined {
		b.WriteString("\n" + FormatProfile(w.profile))
	}
	return b.String()
}

// passedOver notes the clients of the text that are none of the host's.
func (w wish) passedOver(host *Config) []string {
	var units []string
	for _, unit := range w.config.Clients {
		if !slices.Contains(host.Clients, unit) {
			units = append(units, unit)
		}
	}
	if len(units) == 0 {
		return nil
	}
	return []string{fmt.Sprintf("%s: gpuClientSystemdServices is left aside: an agent names no units; not in [clients] of this host: %s", agentJSON, enumerate(units))}
}
