package selection

import (
	"dcm/internal/linux/filelock"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"dcm/internal/engine/config"
	"dcm/internal/engine/config/rule"
	"dcm/internal/engine/config/source"
	"dcm/internal/sanitize"
)

// Select selects the profile for good, by its line in dcm.toml, and ends a selection
// until reboot. [config.None] selects none; "" takes the line out. The file is made if there
// is none. Nothing is changed where the line would have no effect: the error names
// what has precedence.
func Select(p config.Paths, name string) error {
	said := "cannot select profile " + source.QuoteShort(name)
	switch name {
	case "":
		said = "cannot take the selection out of " + p.Admin
	case config.None:
		said = "cannot select no profile"
	}
	if err := withLock(p, func() error { return selectPersistent(p, name) }); err != nil {
		return fmt.Errorf("%s: %w", said, err)
	}
	return nil
}

func selectPersistent(p config.Paths, name string) error {
	if f := rule.Selectable(name); f != nil {
		return errors.New(f.String())
	}
	file, err := openAdminFile(p)
	if err != nil {
		return err
	}
	text, err := source.SetKey(file.text, "profile", name)
	if err != nil {
		return fmt.Errorf("%s is left as it is: %w", p.Admin, err)
	}
	old, err := formerSelection(p)
	if err != nil {
		return err
	}
	after := p.With(p.Admin, text).Without(p.RuntimeSelection())
	if old != nil {
		after = after.Without(formerFile(p))
	}
	cfg, err := config.Load(after)
	if err != nil {
		return fmt.Errorf("nothing was changed: %w", err)
	}
	if strings.HasPrefix(cfg.Source, p.Agent+":") {
		return fmt.Errorf("nothing was changed: an agent has selected %s (%s), which has precedence over %s: have it select another one, or set enabled = false in [agent]", config.OrNone(cfg.Selected), cfg.Source, p.Admin)
	}
	if over := precedingSource(p, cfg.Source); over != "" {
		return fmt.Errorf("nothing was changed: %s selects %s, which has precedence over %s: change it there", over, config.OrNone(cfg.Selected), p.Admin)
	}
	if err := file.replace(text); err != nil {
		return err
	}
	return errors.Join(remove(formerFile(p), old != nil), ClearRuntime(p))
}

// precedingSource returns what selects beside dcm.toml and has precedence over it, or "".
func precedingSource(p config.Paths, at string) string {
	if at == config.CommandLine || strings.HasPrefix(at, p.Local+"/") || strings.HasPrefix(at, p.Runtime+"/") {
		return at
	}
	return ""
}

// SelectRuntime selects the profile until reboot, until the selection for good is
// another one, or until [ClearRuntime].
func SelectRuntime(p config.Paths, name string) error {
	if err := withLock(p, func() error { return selectRuntime(p, name) }); err != nil {
		return fmt.Errorf("cannot select profile %s until reboot: %w", source.QuoteShort(name), err)
	}
	return nil
}

func selectRuntime(p config.Paths, name string) error {
	if f := rule.Selectable(name); f != nil {
		return errors.New(f.String())
	}
	cfg, err := config.Load(p.Without(p.RuntimeSelection()))
	if err != nil {
		return fmt.Errorf("nothing was changed: %w", err)
	}
	text := "# Written by \"dcm apply\": until reboot, until the selection for good is another\n" +
		"# one, or until \"dcm apply --clear\".\n" +
		"profile = " + source.Quote(config.OrNone(name)) + "\n" +
		"instead = " + source.Quote(config.OrNone(cfg.Persistent)) + "\n"
	if cfg, err = config.Load(p.With(p.RuntimeSelection(), text)); err != nil {
		return fmt.Errorf("nothing was changed: %w", err)
	}
	if !strings.HasPrefix(cfg.Source, p.RuntimeSelection()+":") {
		return fmt.Errorf("nothing was changed: %s selects %s, which has precedence", cfg.Source, config.OrNone(cfg.Selected))
	}
	if err := os.MkdirAll(p.Runtime, 0o755); err != nil {
		return err
	}
	was, err := os.Lstat(p.RuntimeSelection())
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return source.ReplaceFile(p.RuntimeSelection(), text, was)
}

// ClearRuntime ends a selection until reboot. That there is none is no error.
func ClearRuntime(p config.Paths) error {
	if err := remove(p.RuntimeSelection(), true); err != nil {
		return fmt.Errorf("cannot end the selection until reboot: %w", err)
	}
	return nil
}

func remove(path string, wanted bool) error {
	if !wanted {
		return nil
	}
	if err := os.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}

// MigrateSelection puts into dcm.toml a selection for good that a dcm before 0.2 wrote as a
// drop-in, and removes the drop-in. It reports whether there was one. What is
// selected is the same before and after, or nothing is changed.
func MigrateSelection(p config.Paths) (bool, error) {
	done := false
	err := withLock(p, func() error {
		name, err := formerSelection(p)
		if err != nil || name == nil {
			return err
		}
		cfg, err := config.Load(p)
		if err != nil {
			return err
		}
		if cfg.Persistent != config.OrEmpty(*name) {
			return fmt.Errorf("%s selects something else after it: remove one of the two", cfg.LastingSource)
		}
		file, err := openAdminFile(p)
		if err != nil {
			return err
		}
		text, err := source.SetKey(file.text, "profile", config.OrNone(*name))
		if err != nil {
			return err
		}
		if cfg, err = config.Load(p.With(p.Admin, text).Without(formerFile(p))); err != nil {
			return err
		}
		if cfg.Persistent != config.OrEmpty(*name) {
			return fmt.Errorf("without it %s would select %s: remove one of the two", cfg.LastingSource, config.OrNone(cfg.Persistent))
		}
		if err := file.replace(text); err != nil {
			return err
		}
		done = true
		return remove(formerFile(p), true)
	})
	if err != nil {
		err = fmt.Errorf("cannot take %s over into %s: %w", formerFile(p), p.Admin, err)
	}
	return done, err
}

// formerSelection returns what a drop-in of a dcm before 0.2 selects, or nil if there is none
// that nobody has added anything to.
func formerSelection(p config.Paths) (*string, error) {
	r := p.NewReader()
	_, found := r.Find(sanitize.Named(formerFile(p)))
	if len(r.Problems) > 0 {
		return nil, source.NewErrors(r.Problems...)
	}
	if !found {
		return nil, nil
	}
	text, ok := r.Text(sanitize.Named(formerFile(p)))
	if !ok {
		return nil, source.NewErrors(r.Problems...)
	}
	root, broken := source.ParseTOML(formerFile(p), text)
	if broken != nil || len(source.Children(root)) != 1 {
		return nil, nil // an administrator's
	}
	name, ok := root.At("profile").Text()
	if !ok {
		return nil, nil
	}
	return &name, nil
}

func formerFile(p config.Paths) string { return filepath.Join(p.Local, config.SelectionFile) }

// withLock holds off others who would write the same file. Others than root could hold
// a lock on what they may open, so that it is a file of its own.
func withLock(p config.Paths, do func() error) error {
	dir := filepath.Dir(p.Runtime)
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	release, err := filelock.Lock(filepath.Join(dir, "select.lock"))
	if err != nil {
		return err
	}
	defer release()
	return do()
}
