package selection

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"reflect"
	"strings"

	"dcm/internal/engine/config"
	"dcm/internal/engine/config/source"
	"dcm/internal/gpu/partition"
	"dcm/internal/linux/atomicfile"
	"dcm/internal/sanitize"
)

// NoProfileError reports a profile that the text does not define.
type NoProfileError struct {
	Profile  string
	Accepted []string
	Text     string
}

func (e *NoProfileError) Error() string {
	return fmt.Sprintf("%s: %s", source.QuoteShort(e.Profile), e.Text)
}

// Proposal is the configuration that would be effective with an agent's text.
type Proposal struct {
	Config *config.Config
	Names  []string // the profiles of the text
	Notes  []string // probable mistakes in the text, and ignored parts

	text string
}

// Propose returns the configuration with a profile from an agent's text, a config.json or a dcm.toml.
// It changes nothing. Only the profiles of the text are used. A selection that the administrator made
// in a drop-in has precedence and is an error. The error is a [*source.Errors], a
// [*config.NotAllowedError] or a [*NoProfileError].
func Propose(p config.Paths, text, profile string) (*Proposal, error) {
	w, err := readWish(text, profile)
	if err != nil {
		return nil, err
	}
	now, err := config.Load(p)
	if err != nil {
		return nil, err
	}
	if !now.Agent {
		return nil, &config.NotAllowedError{Key: "agent.enabled", Text: "agents may not select profiles on this host: [agent] enabled is not true in " + p.Admin}
	}
	if over := precedingSource(p, now.Source); over != "" {
		return nil, outranked(over, now.Selected)
	}
	out := &Proposal{Names: w.config.Names(), Notes: append(w.notes, w.passedOver(now)...), text: w.file()}
	if len(out.text) > source.MaxFileBytes {
		return nil, source.NewErrors(source.Problem{File: p.Agent, Text: "too large (want at most 1 MiB)"})
	}
	if out.Config, err = config.Load(p.With(p.Agent, out.text)); err != nil {
		return nil, err
	}
	return out, checkAgentSelection(p, out.Config, w.profile)
}

func outranked(at, selected string) error {
	return &config.NotAllowedError{Key: "profile", Text: fmt.Sprintf("an administrator selected %s: %s has precedence over agents", config.OrNone(selected), at)}
}

// checkAgentSelection returns an error if the agent's profile is not selected, or if another layer
// changes it.
func checkAgentSelection(p config.Paths, cfg *config.Config, want partition.Profile) error {
	switch {
	case !strings.HasPrefix(cfg.Source, p.Agent+":"):
		return outranked(cfg.Source, cfg.Selected)
	case !reflect.DeepEqual(cfg.Profile, want):
		return &config.NotAllowedError{Key: source.DottedKey("profiles", want.Name), Text: fmt.Sprintf("profile %s is defined differently on this host: see %s", source.QuoteShort(want.Name), cfg.Origin[want.Name])}
	}
	return nil
}

// Install atomically installs an agent's text after the checks of [Propose]. undo restores the
// previous file, unless it was changed since.
func Install(p config.Paths, text, profile string) (undo func() error, err error) {
	err = withLock(p, func() error {
		proposal, err := Propose(p, text, profile)
		if err != nil {
			return err
		}
		before, was, err := readAgentFile(p)
		if err != nil {
			return err
		}
		takeBack := func() error { return restoreAgentFile(p, proposal.text, before, was != nil) }
		undo = func() error { return withLock(p, takeBack) }
		if err := writeAgentFile(p, proposal.text, before, was); err != nil {
			return err
		}
		// Load the installed file, too: an agent must not leave the host without a valid
		// configuration.
		if _, err := config.Load(p); err != nil {
			return errors.Join(err, takeBack())
		}
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("cannot install the configuration of an agent: %w", err)
	}
	return undo, nil
}

// readAgentFile reads the file of agents; was is nil if there is none.
func readAgentFile(p config.Paths) (text string, was fs.FileInfo, err error) {
	was, err = os.Lstat(p.Agent)
	if errors.Is(err, fs.ErrNotExist) {
		return "", nil, nil
	}
	if err != nil {
		return "", nil, err
	}
	r := p.NewReader()
	text, ok := r.Text(sanitize.Named(p.Agent))
	if !ok {
		return "", nil, source.NewErrors(r.Problems...)
	}
	return text, was, nil
}

func writeAgentFile(p config.Paths, text, before string, was fs.FileInfo) error {
	if was != nil && text == before {
		return nil
	}
	if err := os.MkdirAll(filepath.Dir(p.Agent), 0o755); err != nil {
		return err
	}
	return source.ReplaceFile(p.Agent, text, was)
}

func restoreAgentFile(p config.Paths, ours, before string, there bool) error {
	now, was, err := readAgentFile(p)
	if err != nil || was == nil || now != ours {
		return err
	}
	if !there {
		if err := os.Remove(p.Agent); err != nil {
			return err
		}
		return atomicfile.SyncDir(filepath.Dir(p.Agent))
	}
	return writeAgentFile(p, before, now, was)
}
