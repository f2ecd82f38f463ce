package selection

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"dcm/internal/engine/config"
	"dcm/internal/engine/config/rule"
	"dcm/internal/engine/config/source"
	"dcm/internal/linux/filelock"
)

// Select selects the profile persistently, by its line in dcm.toml, and ends a selection until reboot.
// [config.None] selects no profile; "" removes the line. It creates a missing file. If the line would
// have no effect, it changes nothing, and the error names the place that has precedence.
func Select(p config.Paths, name string) error {
	said := "cannot select profile " + source.QuoteShort(name)
	switch name {
	case "":
		said = "cannot remove the selection from " + p.Admin
	case config.None:
		said = "cannot select no profile"
	}
	if err := withLock(p, func() error { return selectPersistent(p, name) }); err != nil {
		return fmt.Errorf("%s: %w", said, err)
	}
	return nil
}

func selectPersistent(p config.Paths, name string) error {
	file, text, err := preparePersistent(p, name)
	if err != nil {
		return err
	}
	if err := file.replace(text); err != nil {
		return err
	}
	return ClearRuntime(p)
}

// preparePersistent returns the administrator's file and the text that selects the profile. It fails if the text
// would have no effect.
func preparePersistent(p config.Paths, name string) (file admin, text string, err error) {
	if f := rule.Selectable(name); f != nil {
		return admin{}, "", errors.New(f.String())
	}
	if file, err = openAdminFile(p); err != nil {
		return admin{}, "", err
	}
	if text, err = source.SetKey(file.text, "profile", name); err != nil {
		return admin{}, "", fmt.Errorf("%s is unchanged: %w", p.Admin, err)
	}
	cfg, err := config.Load(p.With(p.Admin, text).Without(p.RuntimeSelection()))
	if err != nil {
		return admin{}, "", fmt.Errorf("nothing was changed: %w", err)
	}
	return file, text, preceded(p, cfg)
}

// preceded returns an error if another place than the administrator's file selects the profile.
func preceded(p config.Paths, cfg *config.Config) error {
	if strings.HasPrefix(cfg.Source, p.Agent+":") {
		return fmt.Errorf("nothing was changed: an agent selected %s (%s), which has precedence over %s. hint: set enabled = false in [agent]", config.OrNone(cfg.Selected), cfg.Source, p.Admin)
	}
	if over := precedingSource(p, cfg.Source); over != "" {
		return fmt.Errorf("nothing was changed: %s selects %s, which has precedence over %s. hint: change it there", over, config.OrNone(cfg.Selected), p.Admin)
	}
	return nil
}

// precedingSource returns at if it has precedence over dcm.toml; otherwise "".
func precedingSource(p config.Paths, at string) string {
	if at == config.CommandLine || strings.HasPrefix(at, p.Local+"/") || strings.HasPrefix(at, p.Runtime+"/") {
		return at
	}
	return ""
}

// SelectRuntime selects the profile until reboot, until the persistent selection changes, or until
// [ClearRuntime].
func SelectRuntime(p config.Paths, name string) error {
	if err := withLock(p, func() error { return selectRuntime(p, name, "") }); err != nil {
		return fmt.Errorf("cannot select profile %s until reboot: %w", source.QuoteShort(name), err)
	}
	return nil
}

// selectRuntime selects the profile until reboot. terms are further lines of the file.
func selectRuntime(p config.Paths, name, terms string) error {
	if f := rule.Selectable(name); f != nil {
		return errors.New(f.String())
	}
	cfg, err := config.Load(p.Without(p.RuntimeSelection()))
	if err != nil {
		return fmt.Errorf("nothing was changed: %w", err)
	}
	text := "# Written by \"dcm apply\". Effective until reboot, until the persistent selection\n" +
		"# changes, or until \"dcm apply --clear\".\n" +
		"profile = " + source.Quote(config.OrNone(name)) + "\n" +
		"instead = " + source.Quote(config.OrNone(cfg.Persistent)) + "\n" + terms
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

// ClearRuntime ends a selection until reboot. It is no error if there is none.
func ClearRuntime(p config.Paths) error {
	if err := os.Remove(p.RuntimeSelection()); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("cannot end the selection until reboot: %w", err)
	}
	return nil
}

// withLock calls do while it holds the lock on selections. The lock file is separate from the
// configuration, since any user who can open a file can lock it.
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
