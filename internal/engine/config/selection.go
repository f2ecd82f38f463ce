package config

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"dcm/internal/linux/filelock"
	"dcm/internal/sanitize"
)

// orNone is said instead of a profile where none is selected.
func orNone(name string) string {
	if name == "" {
		return None
	}
	return name
}

func orNothing(name string) string {
	if name == None {
		return ""
	}
	return name
}

// Select selects the profile for good, by its line in dcm.toml, and ends a selection
// until reboot. [None] selects none; "" takes the line out. The file is made if there
// is none. Nothing is changed where the line would have no effect: the error names
// what has precedence.
func Select(p Paths, name string) error {
	said := "cannot select profile " + clip(name)
	switch name {
	case "":
		said = "cannot take the selection out of " + p.Admin
	case None:
		said = "cannot select no profile"
	}
	if err := p.locked(func() error { return p.choose(name) }); err != nil {
		return fmt.Errorf("%s: %w", said, err)
	}
	return nil
}

func (p Paths) choose(name string) error {
	if f := selectable(name); f != nil {
		return errors.New(f.String())
	}
	file, err := p.open()
	if err != nil {
		return err
	}
	text, err := setKey(file.text, "profile", name)
	if err != nil {
		return fmt.Errorf("%s is left as it is: %w", p.Admin, err)
	}
	old, err := p.former()
	if err != nil {
		return err
	}
	after := p.With(p.Admin, text).Without(p.runtimeSelection())
	if old != nil {
		after = after.Without(p.old())
	}
	cfg, err := Load(after)
	if err != nil {
		return fmt.Errorf("nothing was changed: %w", err)
	}
	if strings.HasPrefix(cfg.Source, p.Agent+":") {
		return fmt.Errorf("nothing was changed: an agent has selected %s (%s), which has precedence over %s: have it select another one, or set enabled = false in [agent]", orNone(cfg.Selected), cfg.Source, p.Admin)
	}
	if over := p.beside(cfg.Source); over != "" {
		return fmt.Errorf("nothing was changed: %s selects %s, which has precedence over %s: change it there", over, orNone(cfg.Selected), p.Admin)
	}
	if err := file.replace(text); err != nil {
		return err
	}
	return errors.Join(remove(p.old(), old != nil), ClearRuntime(p))
}

// beside returns what selects beside dcm.toml and has precedence over it, or "".
func (p Paths) beside(source string) string {
	if source == commandLine || strings.HasPrefix(source, p.Local+"/") || strings.HasPrefix(source, p.Runtime+"/") {
		return source
	}
	return ""
}

// SelectRuntime selects the profile until reboot, until the selection for good is
// another one, or until [ClearRuntime].
func SelectRuntime(p Paths, name string) error {
	if err := p.locked(func() error { return p.choosePassing(name) }); err != nil {
		return fmt.Errorf("cannot select profile %s until reboot: %w", clip(name), err)
	}
	return nil
}

func (p Paths) choosePassing(name string) error {
	if f := selectable(name); f != nil {
		return errors.New(f.String())
	}
	cfg, err := Load(p.Without(p.runtimeSelection()))
	if err != nil {
		return fmt.Errorf("nothing was changed: %w", err)
	}
	text := "# Written by \"dcm apply\": until reboot, until the selection for good is another\n" +
		"# one, or until \"dcm apply --clear\".\n" +
		"profile = " + quote(orNone(name)) + "\n" +
		"instead = " + quote(orNone(cfg.Persistent)) + "\n"
	if cfg, err = Load(p.With(p.runtimeSelection(), text)); err != nil {
		return fmt.Errorf("nothing was changed: %w", err)
	}
	if !strings.HasPrefix(cfg.Source, p.runtimeSelection()+":") {
		return fmt.Errorf("nothing was changed: %s selects %s, which has precedence", cfg.Source, orNone(cfg.Selected))
	}
	if err := os.MkdirAll(p.Runtime, 0o755); err != nil {
		return err
	}
	was, err := os.Lstat(p.runtimeSelection())
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return replace(p.runtimeSelection(), text, was)
}

// ClearRuntime ends a selection until reboot. That there is none is no error.
func ClearRuntime(p Paths) error {
	if err := remove(p.runtimeSelection(), true); err != nil {
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
func MigrateSelection(p Paths) (bool, error) {
	done := false
	err := p.locked(func() error {
		name, err := p.former()
		if err != nil || name == nil {
			return err
		}
		cfg, err := Load(p)
		if err != nil {
			return err
		}
		if cfg.Persistent != orNothing(*name) {
			return fmt.Errorf("%s selects something else after it: remove one of the two", cfg.LastingSource)
		}
		file, err := p.open()
		if err != nil {
			return err
		}
		text, err := setKey(file.text, "profile", orNone(*name))
		if err != nil {
			return err
		}
		if cfg, err = Load(p.With(p.Admin, text).Without(p.old())); err != nil {
			return err
		}
		if cfg.Persistent != orNothing(*name) {
			return fmt.Errorf("without it %s would select %s: remove one of the two", cfg.LastingSource, orNone(cfg.Persistent))
		}
		if err := file.replace(text); err != nil {
			return err
		}
		done = true
		return remove(p.old(), true)
	})
	if err != nil {
		err = fmt.Errorf("cannot take %s over into %s: %w", p.old(), p.Admin, err)
	}
	return done, err
}

// former returns what a drop-in of a dcm before 0.2 selects, or nil if there is none
// that nobody has added anything to.
func (p Paths) former() (*string, error) {
	r := p.newReader()
	_, found := r.find(sanitize.Named(p.old()))
	if len(r.problems) > 0 {
		return nil, &Errors{r.problems}
	}
	if !found {
		return nil, nil
	}
	text, ok := r.text(sanitize.Named(p.old()))
	if !ok {
		return nil, &Errors{r.problems}
	}
	root, broken := parseTOML(p.old(), text)
	if broken != nil || len(tables(root)) != 1 {
		return nil, nil // an administrator's
	}
	name, ok := root.at("profile").text()
	if !ok {
		return nil, nil
	}
	return &name, nil
}

func (p Paths) old() string { return filepath.Join(p.Local, SelectionFile) }

// locked holds off others who would write the same file. Others than root could hold
// a lock on what they may open, so that it is a file of its own.
func (p Paths) locked(do func() error) error {
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
