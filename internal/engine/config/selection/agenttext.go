package selection

import (
	"fmt"
	"slices"
	"strings"

	"dcm/internal/engine/config"
	"dcm/internal/engine/config/rule"
	"dcm/internal/engine/config/source"
	"dcm/internal/gpu/partition"
)

// wish is a parsed text of an agent.
type wish struct {
	config  *config.Config
	profile partition.Profile
	notes   []string
}

// readWish parses the text of an agent and returns it with the named profile.
func readWish(text, profile string) (wish, error) {
	agent, err := config.LoadAgentText(text)
	if err != nil {
		return wish{}, err
	}
	cfg := agent.Config
	w := wish{config: cfg, notes: agent.Notes}
	if selected := cfg.Selected; selected != "" && selected != profile {
		w.notes = append(w.notes, fmt.Sprintf("%s: profile = %s has no effect: the call selects %s", agent.File, source.QuoteShort(selected), source.QuoteShort(profile)))
	}
	if why := cfg.Unusable[profile]; why != nil {
		return wish{}, why
	}
	if profile != "" && profile != config.None {
		if w.profile, err = cfg.Lookup(profile); err == nil {
			return w, nil
		}
	}
	return wish{}, &NoProfileError{Profile: profile, Accepted: cfg.Names(), Text: rule.NoProfile(profile, cfg.Names()).String()}
}

// file returns the text to install. It has only the selected profile, since the others would be parsed
// at each start and reload without use.
func (w wish) file() string {
	var b strings.Builder
	b.WriteString("# Written by an agent, through the socket that [agent] in dcm.toml enables.\n" +
		"# To ignore this file, set enabled = false there.\n" +
		"version = 1\nprofile = " + source.Quote(w.profile.Name) + "\n")
	if _, defined := w.config.Profiles[w.profile.Name]; defined {
		b.WriteString("\n" + config.FormatProfile(w.profile))
	}
	return b.String()
}

// passedOver returns a note about clients of the text that are not clients of the host.
func (w wish) passedOver(host *config.Config) []string {
	var units []string
	for _, unit := range w.config.Clients {
		if !slices.Contains(host.Clients, unit) {
			units = append(units, unit)
		}
	}
	if len(units) == 0 {
		return nil
	}
	return []string{fmt.Sprintf("%s: gpuClientSystemdServices is ignored: an agent may not set units; not in [clients] of this host: %s", config.AgentJSON, source.Enumerate(units))}
}
