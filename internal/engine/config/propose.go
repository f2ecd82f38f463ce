package config

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"reflect"
	"strings"

	"dcm/internal/gpu/partition"
	"dcm/internal/linux/atomicfile"
	"dcm/internal/sanitize"
)

// NoProfileError is that of a profile which is not in the text.
type NoProfileError struct {
	Profile  string
	Accepted []string
	Text     string
}

func (e *NoProfileError) Error() string { return fmt.Sprintf("%s: %s", clip(e.Profile), e.Text) }

// Proposal is what would be in force if an agent's text was installed.
type Proposal struct {
	Config *Config
	Names  []string // the profiles of the text
	Notes  []string // what in the text looks like a mistake, or is left aside

	text string
}

// Propose looks what comes of a profile out of an agent's text, which is a config.json or
// a dcm.toml. Nothing is changed. Of the text only profiles count; what an administrator
// has selected otherwise than in dcm.toml has precedence, and is named. The error is an
// [*Errors], a [*NotAllowedError] or a [*NoProfileError].
func Propose(p Paths, text, profile string) (*Proposal, error) {
	w, err := readWish(text, profile)
	if err != nil {
		return nil, err
	}
	now, err := Load(p)
	if err != nil {
		return nil, err
	}
	if !now.Agent {
		return nil, &NotAllowedError{Key: "agent.enabled", Text: "this host does not let agents select profiles: [agent] enabled is not true in " + p.Admin}
	}
	if over := p.beside(now.Source); over != "" {
		return nil, outranked(over, now.Selected)
	}
	out := &Proposal{Names: w.config.Names(), Notes: append(w.notes, w.passedOver(now)...), text: w.file()}
	if len(out.text) > largest {
		return nil, &Errors{[]Problem{{File: p.Agent, Text: "refused: it would be larger than 1 MiB"}}}
	}
	if out.Config, err = Load(p.With(p.Agent, out.text)); err != nil {
		return nil, err
	}
	return out, p.kept(out.Config, w.profile)
}

func outranked(source, selected string) error {
	return &NotAllowedError{Key: "profile", Text: fmt.Sprintf("an administrator of this host has selected %s: %s has precedence over what an agent selects", orNone(selected), source)}
}

// kept refuses a configuration in which an agent's profile is not what its text says, or
// not what is selected.
func (p Paths) kept(cfg *Config, want partition.Profile) error {
	switch {
	case !strings.HasPrefix(cfg.Source, p.Agent+":"):
		return outranked(cfg.Source, cfg.Selected)
	case !reflect.DeepEqual(cfg.Profile, want):
		return &NotAllowedError{Key: dotted("profiles", want.Name), Text: fmt.Sprintf("this host says otherwise of profile %s: see %s", clip(want.Name), cfg.Origin[want.Name])}
	}
	return nil
}

// Install puts an agent's text in force, at once or not at all, after the judgement of
// [Propose]. undo puts back what was there before, unless somebody has changed it since.
func Install(p Paths, text, profile string) (undo func() error, err error) {
	err = p.locked(func() error {
		proposal, err := Propose(p, text, profile)
		if err != nil {
			return err
		}
		before, was, err := p.agents()
		if err != nil {
			return err
		}
		takeBack := func() error { return p.takeBack(proposal.text, before, was != nil) }
		undo = func() error { return p.locked(takeBack) }
		if err := p.putAgents(proposal.text, before, was); err != nil {
			return err
		}
		// Read as it lies there, too: nothing of an agent's may leave the host without a
		// configuration that can be used.
		if _, err := Load(p); err != nil {
			return errors.Join(err, takeBack())
		}
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("cannot install what an agent says: %w", err)
	}
	return undo, nil
}

// agents reads the file of agents; was is nil if there is none.
func (p Paths) agents() (text string, was fs.FileInfo, err error) {
	was, err = os.Lstat(p.Agent)
	if errors.Is(err, fs.ErrNotExist) {
		return "", nil, nil
	}
	if err != nil {
		return "", nil, err
	}
	r := p.newReader()
	text, ok := r.text(sanitize.Named(p.Agent))
	if !ok {
		return "", nil, &Errors{r.problems}
	}
	return text, was, nil
}

func (p Paths) putAgents(text, before string, was fs.FileInfo) error {
	if was != nil && text == before {
		return nil
	}
	if err := os.MkdirAll(filepath.Dir(p.Agent), 0o755); err != nil {
		return err
	}
	return replace(p.Agent, text, was)
}

func (p Paths) takeBack(ours, before string, there bool) error {
	now, was, err := p.agents()
	if err != nil || was == nil || now != ours {
		return err
	}
	if !there {
		if err := os.Remove(p.Agent); err != nil {
			return err
		}
		return atomicfile.SyncDir(filepath.Dir(p.Agent))
	}
	return p.putAgents(before, now, was)
}
